"""The small files of an archive: the current release, and the ledger position of releases."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

SHORT = 16
"""Letters of a request that name its folder."""


@dataclass(frozen=True)
class CurrentRelease:
    """The current release of a day.

    Attributes
    ----------
    day : str
        ISO date.
    request : str
        Fingerprint of its public request.
    path : str
        Its folder, relative to that of the data set.
    """

    day: str
    request: str
    path: str

    @classmethod
    def of_day(cls, day: str, request: str) -> CurrentRelease:
        """Return the pointer to a day's release."""
        return cls(day, request, f"{day}/{request[:SHORT]}")

    @classmethod
    def parse(cls, content: Any) -> CurrentRelease:  # noqa: ANN401  JSON
        """Parse the content of a file; raise ValueError, KeyError or TypeError if it is another."""
        return cls(str(content["day"]), str(content["request"]), str(content["path"]))


@dataclass(frozen=True)
class LedgerPosition:
    """The ledger event that stored a release's numbers.

    Attributes
    ----------
    entry, chain : int and str
        Number and hash of the event.
    """

    entry: int
    chain: str

    @classmethod
    def parse(cls, content: Any) -> LedgerPosition:  # noqa: ANN401  JSON
        """Parse the content of a file; raise ValueError, KeyError or TypeError if it is another."""
        return cls(int(content["entry"]), str(content["chain"]))


def to_json(content: CurrentRelease | LedgerPosition) -> str:
    """Return the text of a file with this content."""
    return json.dumps(vars(content), indent=2) + "\n"
