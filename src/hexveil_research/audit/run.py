"""Auditing: counts of events under neighbouring inputs, and the loss they prove.

A lower bound above the claim refutes it. One that is below proves nothing: the proof of every claim
is in the docstring of its mechanism.
All bounds of the suite hold together but for a chance of at most `FAMILY`: the level of each end
of each interval is that chance divided by how many ends there are (Bonferroni).

Bounds on chances and on a privacy loss from counts of events, in plain numpy.

Source: Clopper and Pearson (1934): the ends of an interval are the chances at which the count seen,
or a more extreme one, has a given small chance itself. They hold for every number of trials.
Symbols: k events in n trials, level the chance that one end is wrong.

Why the tail is a short sum: at the lower end the chance is below k/n, so the odds of k, k + 1, ...
events fall from the first, and beyond 8 √n of them they are below exp(-50) of the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from hexveil.base.arrays import Floats, Ints
from hexveil.mechanisms.noise import VettedNoise
from hexveil_research.audit.cases import Case, suite
from hexveil_research.audit.output_distributions import AuditedRelease, Subject, Weakening

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


_HALVINGS = 100
"""More than it takes to find an end to 1e-13 of itself."""

_DEVIATIONS = (8.0, 6.0, 5.0, 4.0, 3.5, 3.0, 2.5, 2.0, 1.5, 1.0)


def tail(k: int, n: int, chance: float) -> float:
    """Return P(X >= k) for X binomial of n trials, to about 1e-8 of it; needs chance <= k/n.

    Parameters
    ----------
    k, n : int
        0 <= k <= n.
    chance : float
        Of an event in one trial.

    Examples
    --------
    >>> round(tail(2, 3, 0.5), 12)
    0.5
    """
    if k <= 0 or chance >= 1.0:
        return 1.0
    if chance <= 0.0:
        return 0.0
    extra = np.arange(1, min(n - k, int(8.0 * math.sqrt(n)) + 50) + 1)
    ratios = (n - k + 1 - extra) / (k + extra) * (chance / (1.0 - chance))
    log_first = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    log_first += k * math.log(chance) + (n - k) * math.log1p(-chance)
    return math.exp(log_first) * (1.0 + float(np.cumprod(ratios).sum()))


def lower_end(k: int, n: int, level: float) -> float:
    """Return a chance that the true one is below with a chance of at most `level`.

    Examples
    --------
    >>> round(lower_end(10, 10, 0.01), 6) == round(0.01**0.1, 6), lower_end(0, 10, 0.01)
    (True, 0.0)
    """
    low, high = 0.0, k / n
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        # Relative, not absolute: chances as small as 1e-9 keep their digits.
        if high - low <= 1e-13 * high:
            break
        if tail(k, n, middle) < level:
            low = middle
        else:
            high = middle
    # The outer side: rounding may only make the proven loss smaller.
    return low


def upper_end(k: int, n: int, level: float) -> float:
    """Return a chance that the true one is above with a chance of at most `level`."""
    return 1.0 - lower_end(n - k, n, level)


def loss_bound(k: int, other_k: int, n: int, level: float) -> float:
    """Return a lower bound on ln(p/q): wrong with a chance of at most 2 `level`.

    Parameters
    ----------
    k, other_k : int
        Events in n trials each: of chance p, and of chance q.
    level : float
        Of either end.

    Examples
    --------
    >>> loss_bound(0, 5, 100, 1e-6)
    -inf
    >>> 0.9 < loss_bound(500, 100, 1000, 1e-6) < 1.6
    True
    """
    low = lower_end(k, n, level)
    return math.log(low / upper_end(other_k, n, level)) if low else -math.inf


def detection(p: float, q: float, n: int, level: float, claim: float) -> float:
    """Return a chance with which, or with more, n trials each give a bound above the claim.

    For counts z standard deviations below n p and above n q: if they would refute the claim, so
    would all counts above the one and below the other, and the chance of any others is a sum of
    two exact binomial tails. The largest of a few z that would.

    Parameters
    ----------
    p, q : float
        True chances of the event.
    n, level
        As for `loss_bound`.
    claim : float
        The loss to be refuted.
    """
    for z in _DEVIATIONS:
        k = max(math.floor(n * p - z * math.sqrt(n * p * (1.0 - p))), 0)
        other_k = min(math.ceil(n * q + z * math.sqrt(n * q * (1.0 - q))), n)
        if loss_bound(k, other_k, n, level) > claim:
            too_few = tail(n - k + 1, n, 1.0 - p)  # P(X < k)
            too_many = tail(other_k + 1, n, q)
            return max(1.0 - too_few - too_many, 0.0)
    return 0.0
