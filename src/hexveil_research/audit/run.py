"""Auditing: counts of events under neighbouring inputs, and the loss they prove.

A lower bound above the claim refutes it. One that is below proves nothing: the proof of every claim
is in the docstring of its mechanism.
All bounds of the suite hold together but for a chance of at most `FAMILY`: the level of each end
of each interval is that chance divided by how many ends there are (Bonferroni).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hexveil.mechanisms.noise import add_laplace, noisy_max
from hexveil_research.audit.bounds import detection, loss_bound
from hexveil_research.audit.cases import Case, suite
from hexveil_research.audit.laws import mixture, release
from hexveil_research.audit.twins import Twin, applicable, broken

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from hexveil_research.audit.laws import Subject

    Floats = NDArray[np.float64]
    Counts = tuple[list[int], list[int]]

FAMILY = 1e-6
"""The chance that any bound of the suite is wrong, on either path."""

SIMULATED, VETTED = 1_000_000, 10_000
"""Releases under each input, through the simulated twin and through the vetted path."""


def level(cases: Sequence[Case]) -> float:
    """Return the chance allowed per end: FAMILY over events x directions x ends x paths."""
    directions, ends, paths = 2, 2, 2
    return FAMILY / (sum(len(case.events) for case in cases) * directions * ends * paths)


class VettedNoise:
    """The vetted noise as a source for a study, on a lattice of 2^-40 of a scale.

    Draws are made in one call each time they run out, as a call costs more than a draw.
    """

    _LATTICE = 2.0**40
    _AT_ONCE = 10_000

    def __init__(self) -> None:
        self._units: list[float] = []

    def laplace(self, scale: float) -> float:
        """Return a vetted draw of the given scale."""
        if not self._units:
            zeros = np.zeros(self._AT_ONCE, dtype=np.int64)
            noise = add_laplace(zeros, np.full(self._AT_ONCE, self._LATTICE))
            self._units = (noise / self._LATTICE).tolist()
        return scale * self._units.pop()

    def noisy_max(self, scores: NDArray[np.int64], scale: float) -> int:
        """Return a vetted choice."""
        return noisy_max(scores, scale)


def simulated_bound(case: Case, level: float, seed: int, twin: Twin | None = None) -> float:
    """Return the largest loss proven by releases of the simulated twin.

    Parameters
    ----------
    case : Case
    level : float
        Chance that one end of an interval is wrong.
    seed : int
        The same seed gives the same bound.
    twin : Twin, optional
        Audit this broken twin of the subject instead.
    """
    subject = _subject(case, twin)
    generator = np.random.default_rng(seed)
    outcomes = (subject.simulate(values, generator, SIMULATED) for values in case.pair)
    return _largest(_counts(case, outcomes), SIMULATED, level)


def vetted_bound(case: Case, level: float, twin: Twin | None = None) -> float:
    """Return the largest loss proven by releases that the vetted noise makes.

    Parameters as for `simulated_bound`; there is no seed.
    """
    subject, noise = _subject(case, twin), VettedNoise()
    outcomes = (
        np.array([release(subject, values, noise) for _ in range(VETTED)]) for values in case.pair
    )
    return _largest(_counts(case, outcomes), VETTED, level)


def exact_loss(case: Case, twin: Twin | None = None) -> float:
    """Return the largest |ln(p/q)| over the events of a case, from exact laws."""
    return max(abs(math.log(p / q)) for p, q in _chances(case, twin))


def power(case: Case, twin: Twin, level: float, trials: int = SIMULATED) -> float:
    """Return a chance with which, or with more, a broken twin's bound exceeds the claim.

    By exact laws and binomial tails, for so many releases under either input.
    """
    return max(
        detection(max(pair), min(pair), trials, level, case.claim) for pair in _chances(case, twin)
    )


def table(seed: int = 0) -> pa.Table:
    """Return what the whole suite finds, a row per case and twin; it takes about a minute.

    Returns
    -------
    pyarrow.Table
        case, twin (null: as it is), claim, exact (the loss on the events, by exact laws), bound
        (proven by the simulated twin), vetted (proven by the vetted path; null for a twin),
        detection (chance that the twin is caught; null for what is not broken).
    """
    cases = suite()
    each = level(cases)
    rows = []
    for case in cases:
        rows.append(_row(case, None, each, seed) | {"vetted": vetted_bound(case, each)})
        rows += [_row(case, twin, each, seed) for twin in applicable(case.subject)]
    schema = pa.schema(
        [("case", pa.string()), ("twin", pa.string())]
        + [(name, pa.float64()) for name in ("claim", "exact", "bound", "vetted", "detection")]
    )
    return pa.Table.from_pylist(rows, schema=schema)


def _row(case: Case, twin: Twin | None, level: float, seed: int) -> dict[str, str | float | None]:
    return {
        "case": case.name,
        "twin": None if twin is None else twin.name,
        "claim": case.claim,
        "exact": exact_loss(case, twin),
        "bound": simulated_bound(case, level, seed, twin),
        "detection": None if twin is None else power(case, twin, level),
    }


def _subject(case: Case, twin: Twin | None) -> Subject:
    return case.subject if twin is None else broken(case.subject, twin)


def _chances(case: Case, twin: Twin | None) -> list[tuple[float, float]]:
    """Return the exact chances of each event under the two inputs."""
    one, other = (mixture(_subject(case, twin), values) for values in case.pair)
    return [(one.chance(event), other.chance(event)) for event in case.events]


def _counts(case: Case, outcomes: Iterable[Floats]) -> Counts:
    """Return how often each event occurs, under one input and under the other."""
    one, other = ([event.count(each) for event in case.events] for each in outcomes)
    return one, other


def _largest(counts: Counts, trials: int, level: float) -> float:
    """Return the largest bound over events and directions."""
    pairs = [*zip(*counts, strict=True), *zip(*reversed(counts), strict=True)]
    return max(loss_bound(k, other, trials, level) for k, other in pairs)
