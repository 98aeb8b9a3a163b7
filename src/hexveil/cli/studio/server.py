"""`hexveil studio`: a page on this machine alone, for whoever would rather not use a terminal.

Served on the loopback interface. Every request must carry the random token of the address and name
that very address as its host, so that no page of another site can reach it under a name of its own;
a form must come from a page of the address. Nothing is logged: paths hold the token. Pages load
nothing from elsewhere and run no script but one file.
"""

import contextlib
import secrets
import threading
import webbrowser
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from hexveil.base.errors import HexveilError, InputError
from hexveil.cli import declarations, formatting
from hexveil.cli.endings import UNEXPECTED
from hexveil.cli.studio.window import STEPS, Window
from hexveil.report.templates import render_template

ADDRESS = "127.0.0.1"
SIZE = 65_536
"""Bytes of a form at most."""
WINDOWS = 100
"""Windows that are remembered; of more, the oldest begins anew."""
ASSETS = {"studio.css": "text/css", "studio.js": "text/javascript"}
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Forms keep their origin; other sites, if a page had links to them, would get nothing.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
SANDBOX = "sandbox allow-scripts allow-downloads"
"""Policy of a release's files: its page runs scripts, and can reach nothing here."""
CLOSED = "This address is not open here. Use the one that hexveil studio printed."


def studio(options: declarations.StudioOptions) -> None:
    """Serve the studio until it is interrupted."""
    if not options.folder.is_dir():
        raise InputError(f"there is no folder {options.folder}; name the one with the records.")
    folder = options.folder.resolve()
    with contextlib.chdir(folder), StudioServer(folder) as server:
        address = server.address
        rows = [("Studio", address), ("End it", "with Ctrl-C.")]
        formatting.show(lambda: rows, lambda: {"address": address}, as_json=options.as_json)
        with TemporaryDirectory() as private, contextlib.suppress(KeyboardInterrupt):
            if options.browser:
                webbrowser.open(start_page(Path(private), address).as_uri())
            server.serve_forever()


def start_page(private: Path, address: str) -> Path:
    """Write a page that leads to the address: arguments of a browser are seen by other users."""
    page = private / "studio.html"
    page.write_text(f'<meta http-equiv="refresh" content="0;url={address}">', "utf-8")
    return page


class StudioServer(ThreadingHTTPServer):
    """The studio, at a free port; closing it waits for a release that has begun."""

    daemon_threads = False

    def __init__(self, folder: Path) -> None:
        super().__init__((ADDRESS, 0), _Handler)
        self.folder = folder.resolve()
        self.token = secrets.token_urlsafe(24)
        self.host = f"{ADDRESS}:{self.server_address[1]}"
        self.windows: dict[str, Window] = {}
        self._opening = threading.Lock()

    @property
    def address(self) -> str:
        """The address for a browser."""
        return f"http://{self.host}/{self.token}/"

    def open_window(self) -> str:
        """Return the name of a new window."""
        name = secrets.token_urlsafe(9)
        with self._opening:
            self.windows[name] = Window(self.folder)
            while len(self.windows) > WINDOWS:
                del self.windows[next(iter(self.windows))]
        return name

    def handle_error(self, *_: Any) -> None:  # noqa: ANN401  of a connection
        """Print nothing: a traceback could show the content of a request."""


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: StudioServer
    server_version, sys_version = "hexveil", ""
    timeout = 10
    """Seconds that a browser may take to send a request: it opens connections in advance."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        """Show a page."""
        self._answer(None)

    def do_POST(self) -> None:
        """Take a form."""
        size = self.headers.get("Content-Length", "")
        if self.headers.get("Origin") != f"http://{self.server.host}" or not size.isdigit():
            self._send(HTTPStatus.FORBIDDEN, CLOSED)
        elif int(size) > SIZE:
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "This form is too large.")
        else:
            fields = parse_qs(self.rfile.read(int(size)).decode("utf-8", "replace"))
            self._answer({name: values[-1] for name, values in fields.items()})

    def _answer(self, form: dict[str, str] | None) -> None:
        token, *path = [unquote(name) for name in urlsplit(self.path).path.split("/")[1:]]
        is_here = self.headers.get_all("Host") == [self.server.host]
        if not is_here or not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self._send(HTTPStatus.FORBIDDEN, CLOSED)
        elif path == [""]:
            self._redirect(f"/{token}/{self.server.open_window()}/file")
        elif len(path) == 1 and path[0] in ASSETS:
            text = (files(__package__) / path[0]).read_bytes()
            self._send(HTTPStatus.OK, text, ASSETS[path[0]])
        elif path[0] in self.server.windows and len(path) > 1:
            self._in_window(path[0], path[1:], form)
        else:
            # A window of an earlier start, or a name that nobody has.
            self._redirect(f"/{token}/")

    def _in_window(self, name: str, path: list[str], form: dict[str, str] | None) -> None:
        """Answer within a window: one request of it at a time."""
        window, top = self.server.windows[name], f"/{self.server.token}/{name}"
        step, status, trouble = path[0], HTTPStatus.OK, ""
        with window.lock:
            try:
                if step in window.files and form is None:
                    kind, content = window.file(step, path[1:])
                    self._send(HTTPStatus.OK, content, kind, SANDBOX)
                    return
                if step not in STEPS or not window.is_open(step):
                    self._redirect(f"{top}/file")
                    return
                if form is not None:
                    self._redirect(f"{top}/{window.take(step, form)}")
                    return
            except Exception as error:  # noqa: BLE001  its text could hold a value
                status, trouble = _answer_to(error)
            try:
                values = window.view(step)
            except Exception as error:  # noqa: BLE001  the same
                status, trouble = (status, trouble) if trouble else _answer_to(error)
                self._send(status, trouble)
                return
        page = {"step": step, "steps": STEPS, "trouble": trouble}
        self._send(status, render_template(f"studio/{step}.html", values | page), "text/html")

    def _redirect(self, path: str) -> None:
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", path)
        self._finish(b"")

    def _send(
        self,
        status: HTTPStatus,
        content: bytes | str,
        kind: str = "text/plain",
        policy: str = POLICY,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Security-Policy", policy)
        self._finish(content.encode() if isinstance(content, str) else content)

    def _finish(self, content: bytes) -> None:
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _answer_to(error: Exception) -> tuple[HTTPStatus, str]:
    """Return the status and the sentence of an error: of one that is no refusal, its type alone."""
    if isinstance(error, HexveilError):
        return HTTPStatus.BAD_REQUEST, str(error)
    return HTTPStatus.INTERNAL_SERVER_ERROR, UNEXPECTED.format(type(error).__name__)
