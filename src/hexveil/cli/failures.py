"""Failures of a command: one line for people, or an object for programs (`--json`)."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from dataclasses import asdict, dataclass

_MAX_WIDTH = 100


@dataclass(frozen=True)
class Failure:
    """Why a command did not do its work.

    Attributes
    ----------
    kind : str
        Name of the error in Python, such as "InputError"; "UsageError" for wrong options,
        "Interrupted", or "UnexpectedError".
    message : str
        One sentence: the expectation, the problem and the remedy.
    hint : str
        The remedy alone; "" where the message names none.
    exit_code : int
    """

    kind: str
    message: str
    hint: str
    exit_code: int

    def show(self, *, as_json: bool) -> None:
        """Print the failure on stderr."""
        if as_json:
            text = json.dumps({"error": asdict(self)}, ensure_ascii=False)
        else:
            # On one line, although a name that is quoted may have line breaks.
            text = _fitted("hexveil: " + " ".join(self.message.split()))
        print(text, file=sys.stderr)  # noqa: T201  the one place


def remedy(message: str) -> str:
    """Return the advice in a message: its end, after a semicolon.

    Examples
    --------
    >>> remedy("there is no file x.toml; check the name.")
    'check the name.'
    >>> remedy("interrupted.")
    ''
    """
    for mark in ("; ", " needed: "):
        if mark in message:
            return message.rpartition(mark)[2]
    return ""


def _fitted(text: str) -> str:
    """Return a line as it is, or wrapped where it is shown on a terminal."""
    if not sys.stderr.isatty():
        return text
    columns = min(shutil.get_terminal_size((_MAX_WIDTH, 24)).columns, _MAX_WIDTH)
    return textwrap.fill(text, columns, break_long_words=False, break_on_hyphens=False)
