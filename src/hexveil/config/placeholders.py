"""Placeholders of a drafted run file: fields that the holder must fill in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

FILL_IN = "FILL IN"
"""Placeholder in a field that only the holder of the records can fill in."""


def refuse(raw: Mapping[str, Any], file_name: str) -> None:
    """Raise InputError with the names of the fields that still hold a placeholder.

    Examples
    --------
    >>> refuse({"values": {"bounds": "FILL IN"}}, "run.toml")
    Traceback (most recent call last):
        ...
    hexveil.base.errors.InputError: run.toml: bounds (in [values]) is not filled in yet: ...
    """
    unfilled = [
        f"{field} (in [{section}])"
        for section, fields in raw.items()
        if isinstance(fields, dict)
        for field, value in fields.items()
        if value == FILL_IN
    ]
    if unfilled:
        verb = "is" if len(unfilled) == 1 else "are"
        raise InputError(
            f"{file_name}: {', '.join(unfilled)} {verb} not filled in yet: replace {FILL_IN!r} as "
            "the comment above it says."
        )
