"""Auditing: counts of events under neighbouring inputs, and the loss they prove.

A lower bound above the claim refutes it. One that is below proves nothing: the proof of every claim
is in the docstring of its mechanism.
All bounds of the suite hold together but for a chance of at most `FAMILY`: the level of each end
of each interval is that chance divided by how many ends there are (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from hexveil.base.arrays import Floats, Ints
from hexveil.mechanisms.noise import VettedNoise
from hexveil_research.audit.bounds import detection, loss_bound
from hexveil_research.audit.cases import Case, suite
from hexveil_research.audit.output_distributions import AuditedRelease, Subject
from hexveil_research.audit.weakenings import Weakening

Counts = tuple[list[int], list[int]]

FAMILY = 1e-6
"""The chance that any bound of the suite is wrong, on either path."""

SIMULATED, VETTED = 1_000_000, 10_000
"""Releases under each input, with simulated noise and with the vetted noise."""


def level(cases: Sequence[Case]) -> float:
    """Return the chance allowed per end: FAMILY over events x directions x ends x paths."""
    # Bonferroni over every end that the suite could compute, also those it does not look at.
    directions, ends, paths = 2, 2, 2
    return FAMILY / (sum(len(case.events) for case in cases) * directions * ends * paths)


class VettedTrials:
    """The vetted noise for many releases of the same values."""

    def __init__(self, trials: int) -> None:
        self._vetted, self._trials = VettedNoise(), trials

    def laplace(self, values: Ints, scales: Floats) -> Ints:
        """Return integers plus discrete Laplace noise, shape (trials, entries)."""
        # A view that repeats one row, not a copy of the values for each trial.
        shape = self._trials, values.shape[1]
        return self._vetted.laplace(np.broadcast_to(values, shape), scales)

    def gaussian(self, values: Ints, deviations: Floats) -> Ints:
        """Return integers plus discrete Gaussian noise, shape (trials, entries)."""
        shape = self._trials, values.shape[1]
        return self._vetted.gaussian(np.broadcast_to(values, shape), deviations)

    def noisy_max(self, scores: Ints, sizes: Ints, scale: float) -> Ints:
        """Return the candidate chosen in each trial."""
        rows = np.broadcast_to(scores, (self._trials, scores.shape[1]))
        return self._vetted.noisy_max(rows, sizes, scale)


def simulated_bound(
    case: Case, level: float, seed: int, weakening: Weakening | None = None
) -> float:
    """Return the largest loss proven by releases with simulated noise.

    Parameters
    ----------
    case : Case
    level : float
        Chance that one end of an interval is wrong.
    seed : int
        The same seed gives the same bound.
    weakening : Weakening, optional
        Audit the subject with this too small noise instead.
    """
    subject = _subject(case, weakening)
    # One generator for both inputs: the two counts must be independent for their bounds to be.
    generator = np.random.default_rng(seed)
    outcomes = (subject.simulate(values, generator, SIMULATED) for values in case.pair)
    return largest_bound(_counts(case, outcomes), SIMULATED, level)


def vetted_bound(
    case: Case, level: float, weakening: Weakening | None = None, trials: int | None = None
) -> float:
    """Return the largest loss proven by releases that the vetted noise makes.

    Parameters as for `simulated_bound`; there is no seed. `trials` is the number of releases under
    each input, by default `VETTED`.
    """
    trials = trials or VETTED
    return largest_bound(vetted_counts(case, trials, weakening), trials, level)


def vetted_counts(case: Case, trials: int, weakening: Weakening | None = None) -> Counts:
    """Return how often the vetted noise brings about each event, under either input.

    Raises
    ------
    TypeError
        If the subject is not the release of a cell.
    """
    subject = _subject(case, weakening)
    if not isinstance(subject, AuditedRelease):
        raise TypeError("only the release of a cell takes vetted noise.")
    outcomes = (subject.outcomes(values, VettedTrials(trials)) for values in case.pair)
    return _counts(case, outcomes)


def largest_bound(counts: Counts, trials: int, level: float) -> float:
    """Return the largest loss that counts under two inputs prove, over events and directions."""
    pairs = [*zip(*counts, strict=True), *zip(*reversed(counts), strict=True)]
    return max(loss_bound(k, other_k, trials, level) for k, other_k in pairs)


def exact_loss(case: Case, weakening: Weakening | None = None) -> float:
    """Return the largest |ln(p/q)| over the events of a case, from exact laws."""
    return max(abs(math.log(p / q)) for p, q in event_chances(case, weakening))


def event_chances(case: Case, weakening: Weakening | None = None) -> list[tuple[float, float]]:
    """Return the exact chances of each event under the two inputs."""
    subject = _audited(case) if weakening is None else _audited(case).weakened(weakening)
    original, changed = (subject.mixture(values) for values in case.pair)
    return [(original.chance(event), changed.chance(event)) for event in case.events]


def power(case: Case, weakening: Weakening, level: float, trials: int = SIMULATED) -> float:
    """Return a chance with which, or with more, the bound of a weakened release exceeds the claim.

    By exact laws and binomial tails, for so many releases under either input.
    """
    return max(
        detection(max(pair), min(pair), trials, level, case.claim)
        for pair in event_chances(case, weakening)
    )


def table(seed: int = 0) -> pa.Table:
    """Run the whole suite, a row per case and twin; it takes about a minute.

    Returns
    -------
    pyarrow.Table
        case, twin (null: as it is), claim, exact (the loss on the events, by exact laws), bound
        (proven with simulated noise), vetted (proven with the vetted noise; null for a twin),
        detection (chance that the twin is caught; null for what is not broken).
    """
    cases = suite()
    level_per_end = level(cases)
    rows = []
    for case in cases:
        rows.append(
            _row(case, None, level_per_end, seed) | {"vetted": vetted_bound(case, level_per_end)}
        )
        rows += [_row(case, twin, level_per_end, seed) for twin in _audited(case).weakenings]
    schema = pa.schema(
        [("case", pa.string()), ("twin", pa.string())]
        + [(name, pa.float64()) for name in ("claim", "exact", "bound", "vetted", "detection")]
    )
    return pa.Table.from_pylist(rows, schema=schema)


def _row(
    case: Case, twin: Weakening | None, level: float, seed: int
) -> dict[str, str | float | None]:
    return {
        "case": case.name,
        "twin": None if twin is None else twin.name,
        "claim": case.claim,
        "exact": exact_loss(case, twin),
        "bound": simulated_bound(case, level, seed, twin),
        "detection": None if twin is None else power(case, twin, level),
    }


def _subject(case: Case, weakening: Weakening | None) -> Subject:
    if weakening is None:
        return case.subject
    return _audited(case).weakened(weakening)


def _audited(case: Case) -> AuditedRelease:
    if not isinstance(case.subject, AuditedRelease):
        raise TypeError("only the release of a cell has exact laws.")
    return case.subject


def _counts(case: Case, outcomes: Iterable[Floats]) -> Counts:
    """Return how often each event occurs, under one input and under the other."""
    original, changed = ([event.count(released) for event in case.events] for released in outcomes)
    return original, changed
