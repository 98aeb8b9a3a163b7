"""The private stages of a release: each is paid for, drawn once and stored before the next.

A plan's stages come from a generator: it yields a `Stage`, gets its noisy result, and may choose
the next stage by it. What a stage costs is computed from the arrays that go to the noise library,
not from the plan's own figures, and checked against what was booked before anything is drawn.

Neighbours: decided by the modules that make stages. Loss: given the results before it, a stage
costs each user what its noise costs; losses add up along every path (ledger/odometer.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hexveil.base.errors import HexveilError, StorageError
from hexveil.ledger.storage.draw_lock import defer_interrupts
from hexveil.mechanisms import noise

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from numpy.typing import NDArray

    from hexveil.ledger import Ledger

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Draw = Callable[[], Ints]
    Whole = dict[str, Ints]
    Stages = Generator["Stage", Ints, Whole]


CELLS = "cells"
"""Name of the stage in which the cells' own numbers are drawn: the last of every plan."""


@dataclass(frozen=True, eq=False, repr=False)
class Stage:
    """One private stage.

    Attributes
    ----------
    name : str
        Of its result in the ledger.
    entries : int
        Whole numbers in the result; public.
    losses : callable
        Returns what each user loses by it, of shape (n_users,), from the integer sensitivities and
        the scales that go to the noise library; public.
    measure : callable
        PRIVATE. Computes integers from the sums and returns the draw, which has not begun.
    """

    name: str
    entries: int
    losses: Callable[[], Floats]
    measure: Callable[[], Draw]

    def __repr__(self) -> str:
        return f"Stage({self.name!r}, entries={self.entries})"


class Journal(Protocol):
    """Where results are kept."""

    def result(self, stage: Stage) -> Ints:
        """Return the stage's noisy result, drawn now unless it was before."""


def execute(stages: Stages, journal: Journal) -> Whole:
    """Return the noisy whole numbers of a release, by name."""
    try:
        stage = next(stages)
        while True:
            stage = stages.send(journal.result(stage))
    except StopIteration as end:
        return dict(end.value)


class Replay:
    """The results of a complete release: nothing is measured, nothing is drawn."""

    def __init__(self, results: Mapping[str, tuple[int, ...]]) -> None:
        self._results = results

    def result(self, stage: Stage) -> Ints:
        """Return the stage's result."""
        return fitting(self._results.get(stage.name), stage)


class Drawing:
    """The results of a booking, drawn where they are missing and stored before they are used.

    Parameters
    ----------
    ledger : Ledger
        Under its lock (`Ledger.drawing`).
    request : str
    booked : ndarray of float, shape (n_users,)
        What was booked for each user, in epsilon.
    most_cells : int
        The most cells of a user.
    """

    def __init__(self, ledger: Ledger, request: str, booked: Floats, most_cells: int) -> None:
        self._ledger, self._request = ledger, request
        self._meter = Meter(booked, most_cells)

    def result(self, stage: Stage) -> Ints:
        """Return the stage's result: as stored, or drawn now, once.

        Raises
        ------
        HexveilError
            If it would cost a user more than is booked; nothing is drawn.
        """
        self._meter.add(stage.losses())
        booking = self._ledger.find(self._request)
        stored = None if booking is None else booking.stages.get(stage.name)
        if stored is not None:
            return fitting(stored, stage)
        draw = stage.measure()
        with defer_interrupts():
            entry = self._ledger.begin_draw(self._request, stage.name, stage.entries)
            try:
                result = draw()
                self._ledger.store(self._request, entry, result)
            finally:
                self._ledger.free_room(entry)
        return result


class Meter:
    """What the stages so far cost each user, against what was booked for it.

    A loss is a sum of up to `most_cells` quotients of doubles in each of few stages: rounding makes
    it too large by less than the part that is taken off here.
    """

    def __init__(self, booked: Floats, most_cells: int) -> None:
        self._booked, self._spent = booked, np.zeros_like(booked)
        self._down = 1.0 - 2.0**-46 - most_cells * 2.0**-51

    def add(self, losses: Floats) -> None:
        """Add a stage's losses; refuse above the booking.

        Raises
        ------
        HexveilError
            If a user would certainly lose more than was booked.
        """
        self._spent = self._spent + losses
        if (self._spent * self._down > self._booked).any():
            raise HexveilError(
                "this release would cost a unit more than was booked for it, so no noise was "
                "drawn: its plan was changed after its loss was computed. Plan again."
            )


def noised(values: Ints, scales: Floats) -> Draw:
    """Return the draw of integers with discrete Laplace noise. PRIVATE until it is drawn."""
    return lambda: noise.add_laplace(values, scales)


def fitting(result: tuple[int, ...] | None, stage: Stage) -> Ints:
    """Return a stored result; StorageError if it is none of this stage."""
    if result is None or len(result) != stage.entries:
        raise StorageError(
            f"the ledger's result of the stage {stage.name!r} is not one of {stage.entries:,} "
            "whole numbers: the file was changed by something else; restore it from a copy."
        )
    return np.array(result, dtype=np.int64)
