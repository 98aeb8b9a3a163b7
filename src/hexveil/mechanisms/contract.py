"""The contract of every mechanism, and the one loop that runs them.

A mechanism has three parts. *Allocate* is public: from public facts and ε it makes an `Allocation`,
frozen data that knows each user's privacy loss. *Measure* is private: a `Stage` turns sums into
integers, which leave through noise alone. *Decode* is public: from noisy integers to estimates.
`execute` runs an allocation stage by stage. A study and a release differ in what they hand to it:
the noise source, the journal and the meter.

Neighbours: one user's values all change within the bounds; users, counts and bounds are public.
Sensitivity: each stage states, from public facts and earlier outputs, by how many integer steps
each user can move each number that it noises.
Loss: given the earlier outputs, a stage costs a user Σ moved/scale for discrete Laplace noise and 2
moved/scale for permute-and-flip. Discrete Gaussian noise has no pure loss: where δ > 0 is promised,
the meter adds up squares of μ (`meter`). Losses add up
along every path of outputs, also where a path was chosen by outputs (adaptive composition with an
odometer: Rogers, Roth, Ullman and Vadhan, 2016). `Allocation.losses` bounds them over all paths,
and that is booked.
The `Meter` adds up what the scales at the noise source really cost and refuses what was not booked,
before anything is drawn.
Relies on: a journal that draws no stage twice under one booking, and a vetted noise source.

Private arrays (`PrivateSums`, `Values`, `Scores`) show nothing. Noise, sensitivity,
branch and decoding never receive sums, so nothing of the sums can reach them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hexveil.accounting.noise_law import NoiseLaw
from hexveil.base.arrays import Floats, Ints
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms import sensitivity_report
from hexveil.mechanisms.stage_data import Measured, Outputs, PrivateSums, Scores, Values

DONE = None
"""There is no further stage."""


# ---- where noise comes from ----


class NoiseSource(Protocol):
    """Source of noise: simulated in batches for a study, the vetted door for a release."""

    def laplace(self, values: Ints, scales: Floats) -> Ints:
        """Return integers plus discrete Laplace noise, shape (batch, entries)."""

    def gaussian(self, values: Ints, deviations: Floats) -> Ints:
        """Return integers plus discrete Gaussian noise, shape (batch, entries)."""

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

    def noise(self, earlier: Outputs) -> tuple[sensitivity_report.NoiseRequest, ...]:
        """Return the noise of each query."""

    def sensitivity(self, earlier: Outputs) -> tuple[sensitivity_report.SensitivityReport, ...]:
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


@dataclass(frozen=True, eq=False)
class NoisyTotals(ReadOnlyArrays):
    """Stage of sums that have noise of one law; its row also holds decisions made from them.

    Attributes
    ----------
    name : str
    n_noised : int
        Numbers that get noise.
    law : NoiseLaw
    report : SensitivityReport
        By how much a unit moves them together.
    total : callable
        Of private sums to the integers. PRIVATE once called.
    decide : callable, optional
        From noisy integers to public ones, which the row holds after them: the last digits of a
        double may differ between processors.
    n_decided : int
        Numbers that it returns.
    scales : ndarray of float, shape (n_noised,), optional
        Of each number; that of the law unless given.
    """

    name: str
    n_noised: int
    law: NoiseLaw
    report: sensitivity_report.SensitivityReport
    total: Callable[[PrivateSums], Ints]
    decide: Callable[[Ints], Ints] | None = None
    n_decided: int = 0
    scales: Floats | None = None

    @property
    def entries(self) -> int:
        """Noisy integers, then the decisions."""
        return self.n_noised + self.n_decided

    def noise(self, earlier: Outputs) -> tuple[sensitivity_report.NoiseRequest, ...]:  # noqa: ARG002  see Stage.noise
        """Return the noise of each number."""
        scales = np.full(self.n_noised, self.law.scale) if self.scales is None else self.scales
        return (sensitivity_report.noise_of_law(self.law, scales),)

    def sensitivity(self, earlier: Outputs) -> tuple[sensitivity_report.SensitivityReport, ...]:  # noqa: ARG002
        """Return by how much a unit moves all numbers together."""
        return (self.report,)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Values, ...]:  # noqa: ARG002
        """Return the sums. PRIVATE."""
        return (Values(np.atleast_2d(self.total(sums))),)

    def row(self, drawn: Ints, earlier: Outputs) -> Ints:  # noqa: ARG002  see Stage.row
        """Return the noisy integers, then the decisions made from them."""
        if self.decide is None:
            return drawn
        return np.hstack([drawn, np.array([self.decide(noisy) for noisy in drawn])])

    def noisy(self, outputs: Outputs) -> Ints:
        """Return the released integers."""
        return np.asarray(outputs[self.name][0][: self.n_noised])

    def decisions(self, outputs: Outputs) -> Ints:
        """Return the decisions that were stored with them."""
        return np.asarray(outputs[self.name][0][self.n_noised :])


class StagedPlan(Protocol):
    """The stages of a mechanism and their loss: frozen arrays and scalars, from public facts."""

    def losses(self) -> Floats:
        """Return each user's privacy loss on the worst path of outputs, rounded up: booked."""

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the stage after these outputs, DONE after the last: a public branch."""


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


def execute(
    allocation: StagedPlan,
    sums: PrivateSums,
    source: NoiseSource,
    journal: Journal,
    meter: sensitivity_report.Authority,
) -> Outputs:
    """Run every stage of an allocation: rows that the journal holds are taken, others drawn.

    Parameters
    ----------
    allocation : StagedPlan
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

    def row_of(stage: Stage, earlier: Outputs) -> Ints:
        requests = stage.noise(earlier)
        # Stages that the journal holds already are authorised too: the meter's sum is that of the
        # whole path, after a crash as well.
        meter.authorise(requests, stage.sensitivity(earlier))
        row = journal.stored(stage.name, stage.entries)
        if row is not None:
            return row
        # Measured before the draw is marked as begun: an error while measuring loses nothing.
        queries = list(zip(requests, stage.measure(sums, earlier), strict=True))
        return journal.draw_once(
            stage.name, stage.entries, lambda: stage.row(_noised(source, queries), earlier)
        )

    return _with_rows(allocation, row_of)


def replay(allocation: StagedPlan, rows: Mapping[str, Ints]) -> Outputs:
    """Return the outputs of a complete release from its rows: nothing is measured or drawn.

    Raises
    ------
    StorageError
        If a row is missing or has another width.
    """
    # A row that is missing has no entries, and is refused like one of another width.
    none = np.zeros((1, 0), dtype=np.int64)
    return _with_rows(allocation, lambda stage, _: np.atleast_2d(rows.get(stage.name, none)))


def rehearse(allocation: StagedPlan) -> Outputs:
    """Return outputs of the shape that a release's have, of zeros: nothing is measured or drawn.

    They are decoded before a release is booked, since an error afterwards would cost the budget.
    """

    def row_of(stage: Stage, earlier: Outputs) -> Ints:
        sizes = (sensitivity_report.scales_of(one).size for one in stage.noise(earlier))
        return stage.row(np.zeros((1, sum(sizes)), np.int64), earlier)

    return _with_rows(allocation, row_of)


def _with_rows(allocation: StagedPlan, row_of: Callable[[Stage, Outputs], Ints]) -> Outputs:
    """Return the outputs of all stages in turn, with these rows."""
    earlier = Outputs()
    while (stage := allocation.next_stage(earlier)) is not DONE:
        earlier = earlier.extended(stage.name, stage.entries, row_of(stage, earlier))
    return earlier


def _noised(
    source: NoiseSource, queries: list[tuple[sensitivity_report.NoiseRequest, Measured]]
) -> Ints:
    """Return the noisy integers of all queries, with one call for all sums."""
    columns: dict[int, Ints] = {}
    sums: dict[int, tuple[Ints, Floats]] = {}
    for number, query in enumerate(queries):
        match query:
            case sensitivity_report.LaplaceNoise(scales), Values(values):
                sums[number] = values, np.atleast_2d(scales)
            case sensitivity_report.NoisyMax(scale), Scores(scores, sizes):
                columns[number] = source.noisy_max(scores, sizes, scale)[:, None]
            case sensitivity_report.GaussianNoise(deviations), Values(values):
                columns[number] = source.gaussian(values, np.atleast_2d(deviations))
            case _:
                raise TypeError("a stage asks for one kind of noise and measures for another.")
    if sums:
        # One call for all sums: the source groups equal scales over the whole stage.
        measured, wanted = zip(*sums.values(), strict=True)
        noisy = source.laplace(_side_by_side(measured), _side_by_side(wanted))
        ends = np.cumsum([array.shape[1] for array in measured])[:-1]
        columns.update(zip(sums, np.split(noisy, ends, axis=1), strict=True))
    row: Ints = _side_by_side([columns[number] for number in range(len(queries))])
    return row


def _side_by_side(columns: Sequence[Any]) -> Any:  # noqa: ANN401  integers or scales
    """Return arrays of one or more rows beside each other, single rows repeated."""
    rows = max(len(array) for array in columns)
    wide = [np.broadcast_to(array, (rows, array.shape[1])) for array in columns]
    return np.asarray(np.concatenate(wide, axis=1))
