"""A PostgreSQL server that tests may stop and start again."""

import os
import pwd
import shutil
import subprocess
import tempfile
from urllib.parse import quote


class Server:
    """A server of one's own, in a folder that is removed at the end."""

    def __init__(self, programs):
        self._programs = programs
        self._folder = tempfile.mkdtemp(prefix="hexveil-pg-")
        # PostgreSQL refuses to run as root.
        self._other = {"user": "nobody"} if os.geteuid() == 0 else {}
        if self._other:
            os.chown(self._folder, pwd.getpwnam("nobody").pw_uid, -1)
        self._data = f"{self._folder}/data"

    @property
    def address(self):
        """Return the address of its database."""
        return f"postgresql://me@/postgres?host={quote(self._folder, safe='')}"

    def __enter__(self):
        run = ("-U", "me", "-A", "trust", "--no-sync", "-E", "UTF8")
        self._run("initdb", "-D", self._data, *run)
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self):
        """Start it, and wait until it answers."""
        options = f"-c listen_addresses= -c fsync=off -k {self._folder}"
        log = ("-l", f"{self._folder}/log")
        self._run("pg_ctl", "-D", self._data, "-w", *log, "-o", options, "start")

    def stop(self):
        """Stop it at once, as if the machine had gone."""
        self._run("pg_ctl", "-D", self._data, "-w", "-m", "immediate", "stop")

    def _run(self, name, *arguments):
        subprocess.run(
            [self._programs / name, *arguments], capture_output=True, check=True,
            cwd=self._folder, env={"LC_ALL": "C.UTF-8", "PATH": os.defpath}, **self._other,
        )  # fmt: skip
