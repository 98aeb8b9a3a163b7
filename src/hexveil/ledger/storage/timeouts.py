"""Timeouts of a ledger's database: for other writers, and for any answer."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from hexveil.base.errors import InputError

VARIABLE = "HEXVEIL_LEDGER_TIMEOUT"
"""Environment variable with the seconds within which a server must answer."""
DEFAULT_TIMEOUT = 60.0
MAX_TIMEOUT = 86_400.0


@dataclass(frozen=True)
class Timeouts:
    """Seconds to wait.

    Attributes
    ----------
    answer : float
        For the answer to one statement, which the server itself is told.
    """

    answer: float = DEFAULT_TIMEOUT

    @property
    def lock(self) -> float:
        """For other writers and a connection; shorter than `answer`, so that it is reported."""
        return self.answer / 2

    @property
    def silence(self) -> float:
        """For a silent server: longer than it takes the server to report its own timeout."""
        return self.answer * 1.25


def read_timeouts() -> Timeouts:
    """Return the timeouts that HEXVEIL_LEDGER_TIMEOUT sets.

    Raises
    ------
    InputError
        If it is not a number of seconds.
    """
    text = os.environ.get(VARIABLE)
    if not text:
        return Timeouts()
    try:
        seconds = float(text)
    except ValueError:
        # Fails the comparison below, as the text "nan" does.
        seconds = math.nan
    if not 0 < seconds <= MAX_TIMEOUT:
        raise InputError(
            f"{VARIABLE} must be a number of seconds above 0 and at most {MAX_TIMEOUT:.0f}, got "
            f"{text!r}."
        )
    return Timeouts(seconds)
