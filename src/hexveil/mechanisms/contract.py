"""The contract of every mechanism, and the one loop that runs them.

A mechanism has three parts. *Allocate* is public: from public facts and ε it makes an `Allocation`,
frozen data that knows each user's privacy loss. *Measure* is private: a `Stage` turns sums into
integers, which leave through noise alone. *Decode* is public: from noisy integers to estimates.
`execute` runs an allocation stage by stage. A study and a release differ in what they hand to it:
the noise source, the journal and the meter.

Neighbours: one user's values all change within the bounds; users, counts and bounds are public.
Sensitivity: each stage states, from public facts and earlier outputs, by how many integer steps
each user can move each number that it noises.
Loss: given the earlier outputs, a stage costs a user Σ moved/scale for discrete Laplace noise and
2 moved/scale for permute-and-flip. Losses add up along every path of outputs, also where a path was
chosen by outputs (adaptive composition with an odometer: Rogers, Roth, Ullman and Vadhan, 2016).
`Allocation.losses` bounds them over all paths, and that is booked. The `Meter` adds up what the
scales at the noise source really cost and refuses what was not booked, before anything is drawn.
Relies on: a journal that draws no stage twice under one booking, and a vetted noise source.

Private arrays (`PrivateSums`, `Values`, `Scores`) show their shapes alone. Noise, sensitivity,
branch, decoding and report never receive sums, so nothing of the sums can reach them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from hexveil.base.errors import HexveilError, StorageError
from hexveil.mechanisms.estimates import (
    Decoded,
    EstimateGrid,
    PredictedError,
    ProvenError,
    StageReport,
    StatisticError,
)
from hexveil.mechanisms.sensitivity_report import (
    ULP,
    Floats,
    Ints,
    LaplaceNoise,
    MeanAndVariance,
    NoiseRequest,
    NoisyMax,
    SensitivityReport,
    Separate,
)

__all__ = [
    "DONE",
    "UNMETERED",
    "Allocation",
    "Authority",
    "Decoded",
    "DrawnRow",
    "EstimateGrid",
    "Floats",
    "Ints",
    "Journal",
    "LaplaceNoise",
    "MeanAndVariance",
    "Measured",
    "MemoryJournal",
    "Meter",
    "NoiseRequest",
    "NoiseSource",
    "NoisyMax",
    "Outputs",
    "PredictedError",
    "PrivateSums",
    "ProvenError",
    "Reading",
    "Scores",
    "SensitivityReport",
    "Separate",
    "Stage",
    "StageReport",
    "StatisticError",
    "Unmetered",
    "Values",
    "execute",
    "replay",
]

DONE = None
"""There is no further stage."""


# ---- private sums, and outputs that are public ----


class Reading(Protocol):
    """Integers that stages share, such as the means of pseudo-users. PRIVATE once computed."""

    @property
    def key(self) -> Hashable:
        """Identity of the integers: equal keys, equal integers for equal sums."""

    def values(self, sums: PrivateSums) -> Ints:
        """Return the integers, shape (batch, n_values). PRIVATE."""


class PrivateSums:
    """Sums of each (cell, user) pair, in quanta above the lower bound. PRIVATE.

    A study computes many data sets at once: `batch` is their number, 1 in a release.

    Parameters
    ----------
    total : ndarray of int64, shape (n_pairs,) or (batch, n_pairs)
        From 0 to records times the span.
    squares : ndarray of int64, same shape, optional
        Sums of squares, where variances are released.
    """

    __slots__ = ("_readings", "squares", "total")

    def __init__(self, total: Ints, squares: Ints | None = None) -> None:
        self.total = np.atleast_2d(np.asarray(total, dtype=np.int64))
        self.squares = None if squares is None else np.atleast_2d(squares)
        self._readings: dict[Hashable, Ints] = {}

    def read(self, reading: Reading) -> Ints:
        """Return the integers of a reading, computed once. PRIVATE."""
        if reading.key not in self._readings:
            self._readings[reading.key] = reading.values(self)
        return self._readings[reading.key]

    def of_pairs(self, rows: slice) -> PrivateSums:
        """Return the sums of a run of pairs, such as those of one cell."""
        squares = None if self.squares is None else self.squares[:, rows]
        return PrivateSums(self.total[:, rows], squares)

    def __repr__(self) -> str:
        return f"PrivateSums(shape={self.total.shape})"


class Outputs(Mapping[str, Ints]):
    """Noisy integers of the stages done so far, shape (batch, entries) each. Public.

    Only `execute` and `replay` add to them, so a stage sees nothing of the sums but through noise.
    """

    __slots__ = ("_rows",)

    def __init__(self, rows: Mapping[str, Ints] | None = None) -> None:
        self._rows = dict(rows or {})

    def __getitem__(self, name: str) -> Ints:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def extended(self, stage: Stage, row: Ints) -> Outputs:
        """Return these outputs and those of one more stage.

        Raises
        ------
        StorageError
            If the row is none of the stage's: another width, or a second row of one name.
        """
        if row.ndim != 2 or row.shape[1] != stage.entries or stage.name in self._rows:
            raise StorageError(
                f"the stored result of the stage {stage.name!r} is not a single row of "
                f"{stage.entries:,} integers: the ledger was changed by something else; restore it "
                "from a copy."
            )
        return Outputs({**self._rows, stage.name: row})


# ---- integers that a stage measures, and where their noise comes from ----


@dataclass(frozen=True, eq=False, repr=False)
class Values:
    """Integers for discrete Laplace noise, shape (batch, entries). PRIVATE."""

    integers: Ints

    def __repr__(self) -> str:
        return f"Values(shape={self.integers.shape})"


@dataclass(frozen=True, eq=False, repr=False)
class Scores:
    """Integer scores of candidates, run-length encoded. PRIVATE.

    Attributes
    ----------
    scores, sizes : ndarray of int64, shape (1 or batch, n_runs)
        A run of `sizes` neighbouring candidates has one score; a run may be empty.
    """

    scores: Ints
    sizes: Ints

    def __repr__(self) -> str:
        return f"Scores(shape={np.broadcast_shapes(self.scores.shape, self.sizes.shape)})"


Measured: TypeAlias = Values | Scores


class NoiseSource(Protocol):
    """Source of noise: simulated in batches for a study, the vetted door for a release."""

    def laplace(self, values: Ints, scales: Floats) -> Ints:
        """Return integers plus discrete Laplace noise, shape (batch, entries)."""

    def noisy_max(self, scores: Ints, sizes: Ints, scale: float) -> Ints:
        """Return the number of the candidate that permute-and-flip chooses, shape (batch,)."""


# ---- stages, allocations, mechanisms ----


class Stage(Protocol):
    """One private measurement. Only `measure` receives sums.

    The tuples that `noise`, `sensitivity` and `measure` return have equal length: a noise request,
    by how much users move its numbers, and the numbers.
    """

    @property
    def name(self) -> str:
        """Name of its row in the journal, unlike those of all other stages of a path."""

    @property
    def entries(self) -> int:
        """Integers in its row; public."""

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:
        """Return the noise of each query."""

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:
        """Return the exact integer sensitivity of each query, given the earlier outputs."""

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Measured, ...]:
        """Return the integers of each query. PRIVATE: they leave through noise alone."""

    def row(self, drawn: Ints, earlier: Outputs) -> Ints:
        """Return the row to be stored: the noisy integers, and public decisions made from them.

        A decision that another processor might take differently (a comparison of predicted errors)
        is stored with the draw that led to it, so that a release goes on as it began.
        """


class DrawnRow:
    """Base of stages that store their noisy integers and nothing else."""

    def row(self, drawn: Ints, earlier: Outputs) -> Ints:  # noqa: ARG002  see Stage.row
        """Return the noisy integers as they are."""
        return drawn


class Allocation(Protocol):
    """The public plan of a mechanism: frozen arrays and scalars, made from public facts."""

    @property
    def kind(self) -> str:
        """Word by which saved plans and templates know it."""

    def losses(self) -> Floats:
        """Return each user's privacy loss on the worst path of outputs, rounded up: booked."""

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the stage after these outputs, DONE after the last: a public branch."""

    def decode(self, outputs: Outputs) -> tuple[Decoded, ...]:
        """Return the statistics that the outputs of all stages give."""

    def report(self, outputs: Outputs) -> tuple[StageReport, ...]:
        """Return each private stage and the numbers it found."""


# ---- the loop ----


class Journal(Protocol):
    """Durable store of the rows of one booking. Nothing is ever drawn twice under one booking."""

    def stored(self, name: str, entries: int) -> Ints | None:
        """Return the row of a stage, shape (batch, entries), or None if there is none yet."""

    def draw_once(self, name: str, entries: int, draw: Callable[[], Ints]) -> Ints:
        """Mark the stage as begun, draw, store the row durably, and return it as stored.

        A stage that was begun and has no row is lost: its journal refuses to draw it again.
        """


class MemoryJournal:
    """Rows of a study or a test; nothing of a release is kept here."""

    def __init__(self) -> None:
        self.rows: dict[str, Ints] = {}

    def stored(self, name: str, entries: int) -> Ints | None:  # noqa: ARG002  see Journal.stored
        """Return the row of a stage, or None."""
        return self.rows.get(name)

    def draw_once(self, name: str, entries: int, draw: Callable[[], Ints]) -> Ints:  # noqa: ARG002
        """Draw and keep a row."""
        self.rows[name] = draw()
        return self.rows[name]


class Authority(Protocol):
    """Right to draw: a `Meter` for a release, `UNMETERED` for a study."""

    def authorise(
        self, requests: tuple[NoiseRequest, ...], reports: tuple[SensitivityReport, ...]
    ) -> None:
        """Raise HexveilError if these draws would cost a user more than was booked."""


class Meter:
    """Privacy loss added up from the scales that go to the noise source, against the booking.

    Stages that the journal holds already are added too, so that the sum is whole after a crash.

    Parameters
    ----------
    booked : ndarray of float, shape (n_users,)
        In epsilon.
    """

    def __init__(self, booked: Floats) -> None:
        self._booked, self._spent = booked, np.zeros_like(booked)

    def authorise(
        self, requests: tuple[NoiseRequest, ...], reports: tuple[SensitivityReport, ...]
    ) -> None:
        """Add the losses of a stage; refuse above the booking.

        Raises
        ------
        HexveilError
            If a user would certainly lose more than was booked for it.
        """
        for request, report in zip(requests, reports, strict=True):
            lost = report.loss_lower_bound(request, self._booked.size)
            self._spent = (self._spent + lost) * (1.0 - ULP)  # a sum of doubles, rounded down
        # Not (spent <= booked): a loss that is not a number is refused, too.
        if not (self._spent <= self._booked).all():
            raise HexveilError(
                "this release would cost a unit more than was booked for it, so no noise was "
                "drawn: its plan was changed after its loss was computed. Plan again."
            )


class Unmetered:
    """A study books nothing: its noise is simulated, and nothing of it is released."""

    def authorise(
        self, requests: tuple[NoiseRequest, ...], reports: tuple[SensitivityReport, ...]
    ) -> None:
        """Accept every draw."""


UNMETERED = Unmetered()


def execute(
    allocation: Allocation,
    sums: PrivateSums,
    source: NoiseSource,
    journal: Journal,
    meter: Authority,
) -> Outputs:
    """Run every stage of an allocation: rows that the journal holds are taken, others drawn.

    A stage is measured before its draw is marked as begun, so that an error while measuring loses
    nothing.

    Parameters
    ----------
    allocation : Allocation
        Public.
    sums : PrivateSums
        PRIVATE; read by `Stage.measure` alone.
    source : NoiseSource
        The vetted door for a release, simulated noise for a study.
    journal : Journal
    meter : Authority

    Raises
    ------
    HexveilError
        If a stage would cost a user more than was booked; that stage is not drawn.
    """
    earlier = Outputs()
    while (stage := allocation.next_stage(earlier)) is not DONE:
        requests = stage.noise(earlier)
        meter.authorise(requests, stage.sensitivity(earlier))
        row = journal.stored(stage.name, stage.entries)
        if row is None:
            draw = _prepared(stage, sums, source, requests, earlier)
            row = journal.draw_once(stage.name, stage.entries, draw)
        earlier = earlier.extended(stage, row)
    return earlier


def replay(allocation: Allocation, rows: Mapping[str, Ints]) -> Outputs:
    """Return the outputs of a complete release from its rows: nothing is measured or drawn.

    Raises
    ------
    StorageError
        If a row is missing or has another width.
    """
    earlier = Outputs()
    while (stage := allocation.next_stage(earlier)) is not DONE:
        row = rows.get(stage.name, np.zeros((1, 0), dtype=np.int64))
        earlier = earlier.extended(stage, np.atleast_2d(row))
    return earlier


def _prepared(
    stage: Stage,
    sums: PrivateSums,
    source: NoiseSource,
    requests: tuple[NoiseRequest, ...],
    earlier: Outputs,
) -> Callable[[], Ints]:
    """Return the draw of a stage, measured and not begun. PRIVATE until it is drawn."""
    queries = list(zip(requests, stage.measure(sums, earlier), strict=True))

    def draw() -> Ints:
        drawn = [_noised(source, request, measured) for request, measured in queries]
        return stage.row(np.concatenate(drawn, axis=1), earlier)

    return draw


def _noised(source: NoiseSource, request: NoiseRequest, measured: Measured) -> Ints:
    match request, measured:
        case LaplaceNoise(), Values():
            return source.laplace(measured.integers, np.atleast_2d(request.scales))
        case NoisyMax(), Scores():
            return source.noisy_max(measured.scores, measured.sizes, request.scale)[:, None]
    raise TypeError("a stage asks for one kind of noise and measures for another.")
