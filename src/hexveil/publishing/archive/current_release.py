"""The small files of an archive: which release counts, and what of the ledger releases rest on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

SHORT = 16
"""Letters of a request that name its folder."""


@dataclass(frozen=True)
class Pointer:
    """Which release of a day counts.

    Attributes
    ----------
    day : str
        ISO date.
    request : str
        Fingerprint of its public request.
    path : str
        Its folder, from the data set's.
    """

    day: str
    request: str
    path: str

    @classmethod
    def to(cls, day: str, request: str) -> Pointer:
        """Return the pointer to a day's release."""
        return cls(day, request, f"{day}/{request[:SHORT]}")

    @classmethod
    def read(cls, said: Any) -> Pointer:  # noqa: ANN401  JSON
        """Return what a file says; ValueError, KeyError or TypeError if it says something else."""
        return cls(str(said["day"]), str(said["request"]), str(said["path"]))


@dataclass(frozen=True)
class Stand:
    """An event of the ledger that a release rests on.

    Attributes
    ----------
    entry, chain : int and str
        Number and hash of the event that stored its numbers.
    """

    entry: int
    chain: str

    @classmethod
    def read(cls, said: Any) -> Stand:  # noqa: ANN401  JSON
        """Return what a file says; ValueError, KeyError or TypeError if it says something else."""
        return cls(int(said["entry"]), str(said["chain"]))


def words(said: Pointer | Stand) -> str:
    """Return the text of the file that says this."""
    return json.dumps(vars(said), indent=2) + "\n"
