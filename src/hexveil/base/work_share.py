"""The completed share of long work, which a progress line shows, and the time that is left.

One activity is shown at a time; what other work tells is dropped. Only shares of work are told,
which follow from public numbers: files, grids, records, cells, steps of a search.

Work tells its share under a name: that of an activity, or of a step that several activities have.
Whoever knows where the step lies in the whole opens a part of it (`share_of_work`).
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

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
        seconds = (now - self.began) * (1.0 / self.share - 1.0)
        time_left = f"{seconds:.0f} s" if seconds < 100.0 else f"{seconds / 60.0:.0f} min"
        return f"{self.activity} ... {100.0 * self.share:.0f}%, about {time_left} left"


_parts: list[tuple[ShownWork, Windows]] = []
"""The work that is shown, with its windows and those of each open part of it, innermost last."""


@contextmanager
def shown_work(work: ShownWork) -> Iterator[ShownWork]:
    """Make an activity the one that is shown."""
    _parts.append((work, work.windows))
    try:
        yield work
    finally:
        _parts.clear()


def tell_share(activity: str, share: float) -> None:
    """Tell the completed share of an activity, from 0 to 1, if it is shown, or a step of it."""
    if _parts and activity in _parts[-1][1]:
        work, windows = _parts[-1]
        begin, end = windows[activity]
        # Never back: a pass that is repeated would make the estimate jump.
        work.share = max(work.share, min(begin + share * (end - begin), 1.0))


def is_work_shown() -> bool:
    """Return whether any activity is shown."""
    return bool(_parts)


def part_of_work(activity: str, number: int, parts: int) -> AbstractContextManager[None]:
    """Scale progress reported inside to one of equal parts, counted from 0."""
    return share_of_work(activity, number / parts, (number + 1) / parts)


def share_of_work(
    activity: str, begin: float, end: float, *steps: str
) -> AbstractContextManager[None]:
    """Scale progress reported inside to a share of an activity, from 0 to 1; of its steps, too."""
    return steps_of_work(activity, begin, end, activity, *steps)


@contextmanager
def steps_of_work(activity: str, begin: float, end: float, *steps: str) -> Iterator[None]:
    """Scale progress of steps reported inside to a share of an activity, which they may not fill.

    Where they report nothing, nothing is told, unless the activity is one of the steps itself.
    """
    if not _parts or activity not in _parts[-1][1]:
        yield
        return
    work, windows = _parts[-1]
    first, last = windows[activity]
    window = first + begin * (last - first), first + end * (last - first)
    depth, part = len(_parts), (work, windows | dict.fromkeys(steps, window))
    _parts.append(part)
    if activity in steps:
        tell_share(activity, 0.0)
    try:
        yield
    finally:
        # After an error it may be over already: with the part around it all within it end.
        if _parts[depth:] and _parts[depth] is part:
            del _parts[depth + 1 :]
            if activity in steps:
                tell_share(activity, 1.0)
            _parts.pop()


def parts_of_work(activity: str, items: Sequence[T]) -> Iterator[T]:
    """Yield items; the work on each is one of equal parts of an activity."""
    for number, item in enumerate(items):
        with part_of_work(activity, number, len(items)):
            yield item
