"""Contents of a demonstration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Where = Callable[[dict[str, Any]], str]


@dataclass(frozen=True)
class Show:
    """A subject of the demo.

    Attributes
    ----------
    name : str
        Of its folder and its run file.
    run : str
        The run file.
    inputs : str
        Names of the files beside it.
    about : tuple of str
        Label and text of the line that says what the records are.
    write : callable
        Writes the records and the lines beneath the map into a folder, and is told the share of
        the work that is done; returns how a row of the release is said to be placed.
    """

    name: str
    run: str
    inputs: str
    about: tuple[str, str]
    write: Callable[[Path, Callable[[float], None]], Where]
