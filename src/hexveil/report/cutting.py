"""What private steps projected the averages of users to, in words, from a manifest.

The ways of several steps, and what their numbers are about: docs/understand/intervals.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexveil.exact import exact
from hexveil.report.facts import NOUNS, up_to_digits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Step = Mapping[str, Any]
    Amount = Callable[[float], str]

CUT_OFF = "cut off"
"""The grade of a cell whose values may lie beyond the range they were projected to."""
WAYS = {
    "direct": "averages of users cut to the interval",
    "users": "around each user\u2019s own average",
    "cells": "around a first noisy average of each cell",
}
"""The ways of several steps."""
CUT_OFF_MEANS = (
    "The number lies within its noise of an end of a range found privately, so the cell\u2019s "
    "values may lie far beyond it; its interval reaches to the bound on that side."
)


def step(steps: Sequence[Step], name: str) -> Step | None:
    """Return the private step of this name; None if there is none."""
    return next((one for one in steps if one["step"] == name), None)


def way(steps: Sequence[Step]) -> str | None:
    """Return the way that was taken; "direct" under one interval, None without any.

    Examples
    --------
    >>> way([{"step": "cells"}]), way([{"step": "interval"}, {"step": "cells"}])
    (None, 'direct')
    """
    if step(steps, "interval") is None:
        return None
    inside = step(steps, "inside")
    return "direct" if inside is None else str(inside["way"])


def cut(steps: Sequence[Step], amount: Amount, *, squares: bool = True) -> str:
    """Return which averages of users a release is about, once they were cut.

    Parameters
    ----------
    steps : sequence of mapping
        The manifest's private steps, an interval among them.
    amount : callable
        Makes words of a number in units of the values.
    squares : bool
        Whether to say it of second moments too, where there are any.

    Examples
    --------
    >>> cut([{"step": "interval", "lower": 2.0, "upper": 5.0}], str)
    'user averages cut to 2.0 to 5.0, an interval found privately'
    """
    found, last = way(steps), step(steps, "cells")
    narrow = "" if last is None or "half_width" not in last else amount(last["half_width"])
    if found == "cells":
        return (
            f"user averages cut to within {narrow} of a first noisy average of their cell, a range "
            "found privately"
        )
    if found == "users":
        return (
            f"user averages cut in two parts: a user\u2019s average over all its cells to "
            f"{_ends(step(steps, 'classes'), amount)}, and what it differs from that in the cell "
            f"to {narrow} either way, ranges found privately"
        )
    first = step(steps, "interval")
    said = f"user averages cut to {_ends(first, amount)}, an interval found privately"
    if first is None or "radius" not in first or not squares:
        return said
    reach = amount(first["radius"])
    return f"{said}, and of average squared distances from its middle cut to {reach}, squared"


def cut_off(counts: Sequence[Step], cells: int) -> list[str]:
    """Return how many cells each statistic has that are cut off, a sentence each.

    Examples
    --------
    >>> cut_off([{"statistic": "mean", "cells": 3}], 40)[0][:45]
    'Cut off (average): 3 of 40 cells. The number '
    """
    return [
        f"Cut off ({NOUNS[one['statistic']]}): {one['cells']:,} of {cells:,} cells. {CUT_OFF_MEANS}"
        if one["cells"]
        else f"Cut off ({NOUNS[one['statistic']]}): no cell."
        for one in counts
    ]


def told(steps: Sequence[Step], amount: Amount) -> list[str]:
    """Return each private step under an interval, what it found and its price, a sentence each."""
    found = way(steps)
    if found is None:
        return []
    return [f"{_said(one, found, amount)} ({_price(one)}).{_chosen(one)}" for one in steps]


def _said(one: Step, found: str, amount: Amount) -> str:
    if one["step"] == "interval":
        return f"An interval for the averages of users, {_ends(one, amount)}"
    if one["step"] == "inside":
        part = float(exact(one["part"], "the part that lies within"))
        return (
            "How far a user\u2019s averages in its cells are from its own over all of them: "
            f"{part:.0%} of them within {amount(one['half_width'])}"
        )
    if one["step"] == "classes":
        return (
            f"Averages of {one['classes']} classes of users who report alike, each user\u2019s "
            f"cut to {_ends(one, amount)}"
        )
    if one["step"] == "averages":
        return "A first average of each cell, users\u2019 averages cut to the interval"
    squares = ", and that of squared distances from its middle" * ("mean_share" in one)
    return {
        "direct": f"The average of users\u2019 averages in each cell, cut to the interval{squares}",
        "users": "How far users\u2019 averages in each cell are from their own",
        "cells": "How far users\u2019 averages in each cell are from its first one",
    }[found] + (f", cut to {amount(one['half_width'])} either way" if "half_width" in one else "")


def _chosen(one: Step) -> str:
    """Return which way was taken then, and why."""
    if one["step"] != "inside":
        return ""
    taken = WAYS[one["way"]]
    return f" Way taken: {taken}, of least predicted error among those that fit what was found."


def _price(one: Step) -> str:
    epsilon = exact(one["epsilon"], "the price of a step")
    return f"epsilon {up_to_digits(float(epsilon), 4)}, {one['share']:.0%} of the whole"


def _ends(one: Step | None, amount: Amount) -> str:
    """Return the ends of a step's range."""
    return "" if one is None else " to ".join(amount(one[end]) for end in ("lower", "upper"))
