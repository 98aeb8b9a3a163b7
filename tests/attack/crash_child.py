"""A process that has loaded the libraries and forks one `hexveil publish` after the other.

Each fork publishes as the command does, and may send itself a signal at a step. The tests write a
line of JSON for each (`crash_runner.py`) and read what becomes of it. The parent runs no thread, so
that forking it is safe.
"""

import contextlib
import gc
import importlib
import json
import os
import re
import resource
import signal
import sys

from attack import crash_draws
from hexveil.cli import main
from hexveil.ledger import Ledger, accounts, events
from hexveil.publishing import markup
from hexveil.records.duckdb.times import clock
from hexveil.report.templates import environment

TIMEZONE = "Asia/Kolkata"
"""That of the run file."""


def load():
    """Load once, for all processes, what a run loads late."""
    for name in (
        "hexveil.cli.app",
        "hexveil.cli.commands.publish_command", "hexveil.ledger.inspection",
        "hexveil.mechanisms.noise", "hexveil.publishing.archive.archive",
        "hexveil.publishing.archive.archive_listing", "hexveil.records.duckdb.reading",
        "hexveil.report.page", "hexveil.simulation", "pandas", "psycopg", "pyarrow.pandas_compat",
        "rich.console", "scipy.optimize",
        "sqlalchemy.dialects.postgresql.psycopg", "click.decorators",
    ):  # fmt: skip
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for escape in (None, str, markup.escaped):
        for template in environment(escape).list_templates():
            environment(escape).get_template(template)
    # Its changes are looked for day by day over 130 years: no child needs to do that again.
    clock(TIMEZONE)
    # What is loaded is never garbage: to look for some in it would copy its pages to each child.
    gc.freeze()


def die(sign):
    """Go at once, as at a power cut of this process, or be told to stop."""
    os.kill(os.getpid(), sign)


def dying(hook, number, sign):
    """Send a signal when a hook is reached for the n-th time: see `crash_states.Step`."""
    when, name, *ending = hook
    owner, attribute = (events, "append") if when == "inside" else found(name)
    owners = (events, accounts) if when == "inside" else (owner,)
    real, reached = getattr(owner, attribute), [0]

    def meant(arguments):
        if when == "inside":
            return arguments[1] == name
        return not ending or re.search(f"{ending[0]}$", str(arguments[-1])) is not None

    def step(*arguments, **options):
        here = meant(arguments)
        reached[0] += here
        last = here and reached[0] == number
        if last and when == "before":
            die(sign)
        made = real(*arguments, **options)
        if last and when != "before":
            die(sign)
        return made

    for one in owners:
        setattr(one, attribute, step)


def found(name):
    """Return the owner and the name of an attribute, of "module:Class.method"."""
    module, _, path = name.partition(":")
    owner = importlib.import_module(module)
    *classes, attribute = path.split(".")
    for one in classes:
        owner = getattr(owner, one)
    return owner, attribute


def telling(tell):
    """Say when the first booking begins."""
    real = Ledger.reserve

    def reserve(*given, **named):
        tell({"booking": True})
        return real(*given, **named)

    Ledger.reserve = reserve


def publish(asked, arguments, name, tell):
    """Publish, with what the command says in a file, and return its exit code."""
    os.chdir(asked["folder"])
    said = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    crash_draws.write_down(asked["folder"])
    os.environ["HEXVEIL_SCRATCH"] = f"{asked['folder']}/scratch"
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_DFL)  # where the tests run in the background they are ignored
    if asked["hook"]:
        dying(asked["hook"], asked["number"], asked["sign"])
    if asked["most_bytes"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (asked["most_bytes"],) * 2)
    telling(tell)
    return main(["publish", "run.toml", *arguments])


def forked(asked, number, tell):
    """Start one of the processes that are asked for, and return its id."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        code = publish(asked, asked["runs"][number], f"said-{number}", tell)
        sys.stdout.flush()
    finally:
        os._exit(code)


def serve():
    """Fork processes for each line that comes in, all at once, and say how they ended."""
    out = os.dup(1)

    def tell(what):
        os.write(out, (json.dumps(what) + "\n").encode())

    for line in sys.stdin:
        asked = json.loads(line)
        children = [forked(asked, number, tell) for number in range(len(asked["runs"]))]
        tell({"pids": children})
        ended = [os.waitpid(child, 0)[1] for child in children]
        tell({"codes": [os.waitstatus_to_exitcode(status) for status in ended]})


if __name__ == "__main__":
    load()
    serve()
