"""The studio as it serves a folder, while a test looks at it."""

import contextlib
import queue
import re
import socketserver
import threading

from hexveil.cli import main


@contextlib.contextmanager
def serving(folder, monkeypatch, capfd):
    """Serve a folder until the block ends, at the address that is returned."""
    servers, serve = queue.Queue(), socketserver.BaseServer.serve_forever

    def noted(server):
        servers.put(server)
        serve(server)

    with monkeypatch.context() as patched:
        patched.setattr(socketserver.BaseServer, "serve_forever", noted)
        thread = threading.Thread(target=main, args=[["studio", str(folder), "--no-browser"]])
        thread.start()
        server = servers.get(timeout=60)
        (address,) = re.findall(r"http://\S+", capfd.readouterr().out)
        try:
            assert server.server_address[0] == "127.0.0.1"
            yield address
        finally:
            server.shutdown()
            thread.join()
