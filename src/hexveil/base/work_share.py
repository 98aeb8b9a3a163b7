"""The completed share of long work, which a progress line shows, and the time that is left.

One activity is shown at a time; what other work tells is dropped. Only shares of work are told,
which follow from public numbers: files, grids, records.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALLEST_SHARE = 0.03
"""Completed share from which the rest is estimated."""


@dataclass
class ShownWork:
    """An activity that is shown, and its completed share.

    Attributes
    ----------
    activity : str
    began : float
        Seconds, on the monotonic clock.
    share : float
        From 0 to 1.
    windows : dict of str to (float, float)
        The part of the whole in which shares of the activity are told now, and those of each of its
        steps that is an activity of its own.
    """

    activity: str
    began: float = field(default_factory=time.monotonic)
    share: float = 0.0
    windows: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.windows.setdefault(self.activity, (0.0, 1.0))

    def text(self, now: float) -> str:
        """Return the activity, with its share and the time that is left, once these are known.

        Examples
        --------
        >>> ShownWork("Reading", began=0.0, share=0.25).text(10.0)
        'Reading ... 25%, about 30 s left'
        >>> ShownWork("Reading", began=0.0).text(10.0)
        'Reading ...'
        """
        if self.share < SMALLEST_SHARE:
            return f"{self.activity} ..."
        left = (now - self.began) * (1.0 / self.share - 1.0)
        rest = f"{left:.0f} s" if left < 100.0 else f"{left / 60.0:.0f} min"
        return f"{self.activity} ... {100.0 * self.share:.0f}%, about {rest} left"


_shown: list[ShownWork] = []


@contextmanager
def shown_work(work: ShownWork) -> Iterator[ShownWork]:
    """Make an activity the one that is shown."""
    _shown.append(work)
    try:
        yield work
    finally:
        _shown.remove(work)


def tell_share(activity: str, share: float) -> None:
    """Tell the completed share of an activity, from 0 to 1, if it is shown, or a step of it."""
    for work in _shown:
        if activity in work.windows:
            begin, end = work.windows[activity]
            # Never back: a pass that is repeated would make the estimate jump.
            work.share = max(work.share, min(begin + share * (end - begin), 1.0))


@contextmanager
def part_of_work(activity: str, number: int, parts: int) -> Iterator[None]:
    """Scale progress reported inside to one of equal parts, counted from 0."""
    works = [(work, work.windows[activity]) for work in _shown if activity in work.windows]
    for work, (begin, end) in works:
        size = (end - begin) / parts
        work.windows[activity] = begin + number * size, begin + (number + 1) * size
    tell_share(activity, 0.0)
    try:
        yield
    finally:
        tell_share(activity, 1.0)
        for work, window in works:
            work.windows[activity] = window
