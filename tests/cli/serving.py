"""The studio as it serves a folder, while a test looks at it."""

import contextlib
import queue
import re
import socketserver
import threading
from dataclasses import dataclass

from hexveil.cli import main


@dataclass(frozen=True)
class Serving:
    """What the command printed and where it listens."""

    address: str
    listens_at: tuple

    @property
    def host(self):
        """Return host and port."""
        return self.address.split("/")[2]

    @property
    def token(self):
        """Return the secret part of the address."""
        return self.address.split("/")[3]


@contextlib.contextmanager
def serving(folder, monkeypatch, capfd):
    """Serve a folder until the block ends."""
    servers, serve = queue.Queue(), socketserver.BaseServer.serve_forever

    def noted(server):
        servers.put(server)
        serve(server)

    with monkeypatch.context() as patched:
        patched.setattr(socketserver.BaseServer, "serve_forever", noted)
        words = ["studio", str(folder), "--no-browser"]
        thread = threading.Thread(target=main, args=[words])
        thread.start()
        server = servers.get(timeout=60)
        (address,) = re.findall(r"http://\S+", capfd.readouterr().out)
        try:
            yield Serving(address, server.server_address)
        finally:
            server.shutdown()
            thread.join()
