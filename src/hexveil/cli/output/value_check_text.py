"""PRIVATE lines about values, for the terminal of their holder."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from hexveil.cli.output import formatting
from hexveil.records.value_checks import DOMINANT_USER_SHARE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexveil.records.value_checks import ValueChecks

MARK = "PRIVATE  "
"""Beginning of every line."""
_CLAMPED_SHARE = 0.01
"""Share of clamped values from which the bounds are called into question."""


def private_lines(checks: ValueChecks, value_unit: str) -> list[str]:
    """Return the findings as lines, each of them marked."""
    head = (
        "For your eyes only: exact figures of protected values. Do not publish, send or store "
        "them. They do not appear in any release."
    )
    wrap = textwrap.TextWrapper(formatting.terminal_width() - len(MARK), subsequent_indent="  ")
    return [
        MARK + line for text in (head, *_findings(checks, value_unit)) for line in wrap.wrap(text)
    ]


def _findings(checks: ValueChecks, value_unit: str) -> Iterator[str]:
    yield f"Usable values: {checks.records:,} records of {checks.users:,} users."
    yield _clamped(checks)
    if checks.decimal_commas:
        commas = f"{checks.decimal_commas:,} records"
        yield f'Decimal commas: {commas}; declare decimal = "," in [format].'
    if checks.with_text:
        yield (
            f"Text after numbers: {checks.with_text:,} records; if it is their unit, declare "
            "unit_suffix in [format]."
        )
    for value, share in checks.frequent:
        yield (
            f"Frequent value: {formatting.measured(value, value_unit)} in {share:.1%} of records; "
            "if it means no reading, add it to drop_values in [select]."
        )
    for jump in checks.jumps:
        yield (
            f"Jump of unit: values of {jump.group} are {jump.ratio:.2f} times those of most "
            f"records, as if in {jump.unit}; convert them before you publish."
        )
    if checks.constant_users:
        yield (
            f"Constant sensors: {checks.constant_users:,} users have one and the same value in all "
            "of their many records."
        )
    yield _largest_user(checks)


def _clamped(checks: ValueChecks) -> str:
    text = f"Clamped by the bounds: {checks.below_share:.2%} below, {checks.above_share:.2%} above."
    if max(checks.below_share, checks.above_share) < _CLAMPED_SHARE:
        return text
    return (
        f"{text} Check unit and bounds; choose bounds from public knowledge, never from these "
        "figures."
    )


def _largest_user(checks: ValueChecks) -> str:
    text = f"Largest user: {checks.largest_user_share:.1%} of records."
    if checks.largest_user_share < DOMINANT_USER_SHARE:
        return text
    return f"{text} Check that the id column does not join several vehicles under one id."
