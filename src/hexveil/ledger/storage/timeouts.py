"""How long a ledger's database may keep a run waiting: for other writers, and for any answer."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from hexveil.base.errors import InputError

VARIABLE = "HEXVEIL_LEDGER_TIMEOUT"
"""Environment variable with the seconds within which a server must answer."""
ANSWER = 60.0
LARGEST = 86_400.0


@dataclass(frozen=True)
class Patience:
    """Seconds to wait.

    Attributes
    ----------
    answer : float
        For the answer to one statement, which the server itself is told.
    """

    answer: float = ANSWER

    @property
    def lock(self) -> float:
        """For other writers, and for a connection; less than for an answer, so that it is told."""
        return self.answer / 2

    @property
    def silence(self) -> float:
        """For a server that says nothing at all: more than it takes to tell that it gave up."""
        return self.answer * 1.25


def patience() -> Patience:
    """Return how long to wait, as HEXVEIL_LEDGER_TIMEOUT says.

    Raises
    ------
    InputError
        If it is not a number of seconds.
    """
    said = os.environ.get(VARIABLE)
    if not said:
        return Patience()
    try:
        seconds = float(said)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= LARGEST:
        raise InputError(
            f"{VARIABLE} must be a number of seconds above 0, at most {LARGEST:.0f}, got {said!r}."
        )
    return Patience(seconds)
