"""`hexveil studio`: a page on this machine alone, for whoever would rather not use a terminal.

Served on the loopback interface. Every request must carry the random token of the address and name
that very address as its host, so that no page of another site can reach it under a name of its own;
a form must come from a page of the address. Nothing is logged: paths hold the token. Pages load
nothing from elsewhere and run no script but one file.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import webbrowser
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from hexveil.base.errors import HexveilError, InputError
from hexveil.cli.endings import UNEXPECTED
from hexveil.cli.output import formatting
from hexveil.cli.studio.session import STEPS, Session
from hexveil.report.templates import render_template

if TYPE_CHECKING:
    from pathlib import Path

    from hexveil.cli import declarations

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
    with contextlib.chdir(options.folder), server_of(options.folder) as server:
        address = server.address
        rows = [("Studio", address), ("End it", "with Ctrl-C.")]
        formatting.show(lambda: rows, lambda: {"address": address}, as_json=options.as_json)
        if options.browser:
            webbrowser.open(address)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


def server_of(folder: Path) -> StudioServer:
    """Return a server for the current folder, which is `folder`, at a free port."""
    return StudioServer((ADDRESS, 0), folder)


class StudioServer(ThreadingHTTPServer):
    """The studio; closing it waits for a release that has begun."""

    daemon_threads = False

    def __init__(self, place: tuple[str, int], folder: Path) -> None:
        super().__init__(place, _Handler)
        self.folder = folder.resolve()
        self.token = secrets.token_urlsafe(24)
        self.host = f"{ADDRESS}:{self.server_address[1]}"
        self.sessions: dict[str, Session] = {}
        self._opening = threading.Lock()

    @property
    def address(self) -> str:
        """What a browser opens."""
        return f"http://{self.host}/{self.token}/"

    def open_session(self) -> str:
        """Return the name of a new window's session."""
        name = secrets.token_urlsafe(9)
        with self._opening:
            self.sessions[name] = Session(self.folder)
            while len(self.sessions) > WINDOWS:
                del self.sessions[next(iter(self.sessions))]
        return name

    def handle_error(self, *_: Any) -> None:  # noqa: ANN401  of a connection
        """Print nothing: a traceback could show what a request held."""


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: StudioServer
    server_version, sys_version = "hexveil", ""
    timeout = 60

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
        token, *path = [unquote(part) for part in urlsplit(self.path).path.split("/")[1:]]
        is_here = self.headers.get_all("Host") == [self.server.host]
        if not is_here or not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self._send(HTTPStatus.FORBIDDEN, CLOSED)
        elif path == [""]:
            self._redirect(f"/{token}/{self.server.open_session()}/file")
        elif len(path) == 1 and path[0] in ASSETS:
            text = (files(__package__) / path[0]).read_bytes()
            self._send(HTTPStatus.OK, text, ASSETS[path[0]])
        elif path[0] in self.server.sessions and len(path) > 1:
            self._in_session(path[0], path[1:], form)
        else:
            # A window of an earlier start, or a name that nobody has.
            self._redirect(f"/{token}/")

    def _in_session(self, name: str, path: list[str], form: dict[str, str] | None) -> None:
        """Answer within a window: one request of it at a time."""
        session = self.server.sessions[name]
        top = f"/{self.server.token}/{name}"
        status, trouble = HTTPStatus.OK, ""
        with session.lock:
            step = path[0] if path[0] in STEPS and session.is_open(path[0]) else ""
            try:
                if path[0] in session.files and form is None:
                    self._send_file(session, path)
                    return
                if not step:
                    self._redirect(f"{top}/file")
                    return
                if form is not None:
                    self._redirect(f"{top}/{session.take(step, form)}")
                    return
            except HexveilError as error:
                status, trouble = HTTPStatus.BAD_REQUEST, str(error)
            except Exception as error:  # noqa: BLE001  its text could hold a value
                status = HTTPStatus.INTERNAL_SERVER_ERROR
                trouble = UNEXPECTED.format(type(error).__name__)
            try:
                values = session.view(step or "file")
            except HexveilError as error:
                step, values = "file", {"files": [], "more": False}
                status, trouble = HTTPStatus.BAD_REQUEST, str(error)
        page = {"step": step or "file", "steps": STEPS, "trouble": trouble, "root": top}
        text = render_template(f"studio/{page['step']}.html", values | page)
        self._send(status, text.encode(), "text/html")

    def _send_file(self, session: Session, path: list[str]) -> None:
        """Send a file of the release of a window, by its name in a list."""
        kind, content = session.file(path[0], path[1:])
        self._send(HTTPStatus.OK, content, kind, SANDBOX)

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
