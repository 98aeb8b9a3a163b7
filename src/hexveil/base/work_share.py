"""The completed share of long work, which a progress line shows, and the time that is left.

One activity is shown at a time; what other work tells is dropped. Only shares of work are told,
which follow from public numbers: files, grids, records, cells, steps of a search.

Work tells its share under a name: that of an activity, or of a step that several activities have.
Whoever knows where the step lies in the whole opens a part of it (`share_of_work`).
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

T = TypeVar("T")

READING, COUNTING = "Reading records", "Counting records"
PLANNING, RELEASING, WRITING = "Planning", "Releasing", "Writing the map"
"""Activities of which parts are told."""
FOLDER_CHECK, LEDGER_CHECK = "Checking the folder", "Checking the ledger"
SEARCH, ESTIMATES, DRAWS, QUERY = "a search", "estimates", "draws", "a query"
"""Steps of activities: a search for a plan, the estimates of cells, noise, a query of the engine.
"""
Windows = dict[str, tuple[float, float]]
"""Parts of the whole in which an activity and its steps tell their shares."""
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
        The part of the whole in which shares of the activity are told, and those of each of its
        steps.
    """

    activity: str
    began: float = field(default_factory=time.monotonic)
    share: float = 0.0
    windows: Windows = field(default_factory=dict)
    _opened: list[Windows] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.windows.setdefault(self.activity, (0.0, 1.0))

    @property
    def current(self) -> Windows:
        """The windows of the innermost part that is being done."""
        return self._opened[-1] if self._opened else self.windows

    def open_part(self, part: Windows) -> None:
        """Begin a part within the current one."""
        self._opened.append(part)

    def has_part(self, part: Windows) -> bool:
        """Return whether a part has not ended: with the one around it all parts end."""
        return any(one is part for one in self._opened)

    def close_part(self, part: Windows) -> None:
        """End a part, and all parts within it."""
        if self.has_part(part):
            depth = next(k for k, one in enumerate(self._opened) if one is part)
            del self._opened[depth:]

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
        if activity in work.current:
            begin, end = work.current[activity]
            # Never back: a pass that is repeated would make the estimate jump.
            work.share = max(work.share, min(begin + share * (end - begin), 1.0))


def is_work_shown() -> bool:
    """Return whether any activity is shown."""
    return bool(_shown)


def part_of_work(activity: str, number: int, parts: int) -> AbstractContextManager[None]:
    """Scale progress reported inside to one of equal parts, counted from 0."""
    return share_of_work(activity, number / parts, (number + 1) / parts)


@contextmanager
def share_of_work(activity: str, begin: float, end: float, *steps: str) -> Iterator[None]:
    """Scale progress reported inside to a share of an activity, from 0 to 1; of its steps, too."""
    with _opened_parts(activity, begin, end, (activity, *steps)) as parts:
        tell_share(activity, 0.0)
        try:
            yield
        finally:
            # After an error it may be over already: its end is then no news of what is done now.
            if all(work.has_part(part) for work, part in parts):
                tell_share(activity, 1.0)


@contextmanager
def steps_of_work(activity: str, begin: float, end: float, *steps: str) -> Iterator[None]:
    """Scale progress of steps reported inside to a share of an activity, which they may not fill.

    Where they report nothing, nothing is told.
    """
    with _opened_parts(activity, begin, end, steps):
        yield


@contextmanager
def _opened_parts(
    activity: str, begin: float, end: float, steps: tuple[str, ...]
) -> Iterator[list[tuple[ShownWork, Windows]]]:
    """Open a share of an activity for steps in every work that is shown; yield these parts."""
    opened = []
    for work in _shown:
        if activity in work.current:
            first, last = work.current[activity]
            window = first + begin * (last - first), first + end * (last - first)
            part = work.current | dict.fromkeys(steps, window)
            work.open_part(part)
            opened.append((work, part))
    try:
        yield opened
    finally:
        for work, part in opened:
            work.close_part(part)


def parts_of_work(activity: str, items: Sequence[T]) -> Iterator[T]:
    """Yield items; the work on each is one of equal parts of an activity."""
    for number, item in enumerate(items):
        with part_of_work(activity, number, len(items)):
            yield item
