"""What a run file that was written for someone still lacks: lines to be filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

FILL_IN = "FILL IN"
"""What stands in a field that nobody but the holder of the records can fill in."""


def refuse(raw: Mapping[str, Any], where: str) -> None:
    """Raise InputError if fields of a run file are still to be filled in, and name them.

    Examples
    --------
    >>> refuse({"values": {"bounds": "FILL IN"}}, "run.toml")
    Traceback (most recent call last):
        ...
    hexveil.base.errors.InputError: run.toml: bounds (in [values]) is not filled in yet: ...
    """
    left = [
        f"{field} (in [{section}])"
        for section, fields in raw.items()
        if isinstance(fields, dict)
        for field, value in fields.items()
        if value == FILL_IN
    ]
    if left:
        verb = "is" if len(left) == 1 else "are"
        raise InputError(
            f"{where}: {', '.join(left)} {verb} not filled in yet: replace {FILL_IN!r} as the "
            "comment above it says."
        )
