"""IOT figure 5: the cap of least worst-case error against ε, and its real cost.

Source: IOT section V, eq. (15), figure 5; BESTFIT's arrays as they are filled: ERRATA 8. Counts
only, of a cell like the published one: everything here is public, and nothing is simulated.
What the paper leaves open: the values of ε between 0.001 and 2, taken as 121 of equal ratio.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from hexveil import theory
from hexveil.base.arrays import Floats, Ints
from hexveil.mechanisms import ArrayAveraging, Baseline, CellMechanism, OptimalClipping
from hexveil_research.papers import itms
from hexveil_research.papers.iot.error_panels import subject
from hexveil_research.papers.iot.iot_cells import CELLS
from hexveil_research.papers.study import (
    CELL_LOSS,
    Claim,
    Line,
    Outcome,
    Panel,
    Setting,
    Study,
    line,
)

POINTS = 121
EPSILONS = tuple(f"{epsilon:.4g}" for epsilon in np.geomspace(0.001, 2, POINTS))
X = np.array([float(epsilon) for epsilon in EPSILONS])
MIDDLE = itms.SPAN / 2
"""The worst-case error of the constant U/2, which loses no privacy."""


def minimax(counts: Ints, epsilons: Sequence[str] = EPSILONS) -> Ints:
    """Return m^(ε), the smallest cap that is best if every array were full, at every ε."""
    return np.array([theory.minimax_cap(counts, epsilon) for epsilon in epsilons])


def searched(counts: Ints) -> Ints:
    """Return the smallest minimiser of eq. (15) over every whole cap, exactly, at every ε."""
    caps = np.arange(counts.min(), counts.max() + 1)
    kept_counts, total = theory.capped_total(counts, caps), int(counts.sum())
    minimisers = []
    for epsilon in EPSILONS:
        approximate = -kept_counts / total + caps / kept_counts / float(epsilon)
        # Floats find the candidates, exact fractions decide between them.
        close = np.flatnonzero(approximate <= approximate.min() + 1e-9 * np.abs(approximate).max())
        minimisers.append(
            min(
                (Fraction(int(c), int(k)) / Fraction(epsilon) - Fraction(int(k), total), int(c))
                for c, k in zip(caps[close], kept_counts[close], strict=True)
            )[1]
        )
    return np.array(minimisers)


def worst_errors(counts: Ints, mechanisms: Sequence[CellMechanism], setting: Setting) -> Floats:
    """Return worst-case bias plus expected |noise|, of one mechanism for each ε."""
    plans = (
        mechanism.plan(counts, bounds=setting.shown_bounds, epsilon=epsilon)
        for mechanism, epsilon in zip(mechanisms, setting.losses(EPSILONS), strict=True)
    )
    return np.array([plan.worst_case_error for plan in plans], dtype=np.float64)


def capped(caps: Ints) -> list[CellMechanism]:
    """Return ARRAY-AVERAGING with a cap for each ε."""
    return [ArrayAveraging(cap=cap) for cap in caps.tolist()]


def stairs(setting: Setting) -> Outcome:
    """Return IOT figure 5, and beside it the worst-case errors of the caps."""
    # The first of the cells on which figures 1 to 4 are simulated.
    own, epsilons = setting.data, setting.losses(EPSILONS)
    counts = itms.counts(setting.seed * CELLS) if own is None else own.counts
    caps = minimax(counts, epsilons)
    fitted = np.array([theory.exact_cap(counts, epsilon) for epsilon in epsilons])
    setting.tell(0.5)
    compared: dict[str, list[CellMechanism]] = {
        "BASELINE": [Baseline()] * len(epsilons),
        "OPT-ARRAY-AVERAGING": capped(caps),
        "exact cap": capped(fitted),
        "optimal clipping": [OptimalClipping()] * len(epsilons),
    }
    errors = {
        name: worst_errors(counts, mechanisms, setting) for name, mechanisms in compared.items()
    }
    panels = (_cap_panel(setting, counts, caps, fitted), _error_panel(setting, errors))
    setting.tell(0.8)
    if not setting.is_papers:
        return Outcome(panels)
    claims = (staircase_claim(counts, caps), searched_claim(caps, searched(counts)))
    return Outcome(panels, (*claims, *error_claims(errors)))


def _cap_panel(setting: Setting, counts: Ints, caps: Ints, fitted: Ints) -> Panel:
    x = _axis(setting)
    lines = (
        line("m^(ε), arrays full (eq. 15)", x, caps, look="steps"),
        line("exact cap, arrays as filled", x, fitted, whose="ours", look="steps"),
        _rule("median cap", x, theory.median_cap(counts)),
    )
    title = f"IOT figure 5: {subject(setting, 'cell like ITMS')}"
    return Panel(title, CELL_LOSS, "cap, samples of an array", lines, log_x=True)


def _error_panel(setting: Setting, errors: dict[str, Floats]) -> Panel:
    x = _axis(setting)
    ours = {"exact cap", "optimal clipping"}
    lines = (
        *(line(n, x, error, whose="ours" if n in ours else "paper") for n, error in errors.items()),
        _rule("the constant U/2", x, setting.span / 2),
    )
    own = "" if setting.data is None else f": {setting.data.name}"
    title = f"What the caps cost at worst{own}"
    label = f"worst-case bias + expected |noise|, {setting.unit}"
    return Panel(title, CELL_LOSS, label, lines, log_x=True, log_y=True)


def _axis(setting: Setting) -> Floats:
    return np.array(setting.losses(EPSILONS), dtype=float)


def _rule(name: str, x: Floats, height: float) -> Line:
    return line(name, x, np.full(x.size, height), whose="reference")


def staircase_claim(counts: Ints, caps: Ints) -> Claim:
    """Return the claim that m^(ε) is a non-decreasing staircase with counts as steps.

    Parameters
    ----------
    counts : ndarray of int64
    caps : ndarray of int64, shape (n_epsilons,)
        m^(ε) at growing ε.
    """
    falls, outside = int((np.diff(caps) < 0).sum()), int((~np.isin(caps, counts)).sum())
    steps = np.unique(caps).size
    return Claim(
        "IOT",
        "Section V, figure 5",
        "m^(ε) is a non-decreasing staircase in ε",
        f"{steps} different values at {caps.size} ε from {X[0]:g} to {X[-1]:g}, from {caps[0]} to "
        f"{caps[-1]}; it falls {falls} times, and {outside} values are none of the counts",
        not falls and not outside and 1 < steps < caps.size,
        basis="other records",
    )


def searched_claim(caps: Ints, exact_caps: Ints) -> Claim:
    """Return that trying the counts alone finds the smallest minimiser of eq. (15)."""
    different = int((caps != exact_caps).sum())
    return Claim(
        "IOT",
        "Lemma V.2, figure 5",
        "Trying the counts alone minimises eq. (15) over all caps",
        f"a search over every whole cap, in exact arithmetic, differs at {different} of "
        f"{caps.size} ε",
        different == 0,
    )


def error_claims(errors: dict[str, Floats]) -> tuple[Claim, ...]:
    """Return the claims of the second panel.

    Parameters
    ----------
    errors : dict of str to ndarray of float, shape (n_epsilons,)
        Worst-case errors by name.
    """
    minimax_error, fitted, best = (
        errors[name] for name in ("OPT-ARRAY-AVERAGING", "exact cap", "optimal clipping")
    )
    over, gain = minimax_error / fitted, fitted / best
    free = X[minimax_error > MIDDLE]
    # Rounding alone must not contradict "no larger".
    slack = 1 + 1e-9
    return (
        Claim(
            "IOT",
            "Figure 5",
            "A cap chosen for BESTFIT's arrays as they are filled has a worst-case error no larger "
            "than m^(ε), which takes them as full (ERRATA 8)",
            f"with m^(ε) it is {over.min():.3f} to {over.max():.3f} times as large",
            bool((fitted <= minimax_error * slack).all()),
            "ours",
        ),
        Claim(
            "IOT",
            "Figure 5",
            "The optimal clipping has a worst-case error no larger than any cap",
            f"with the exact cap it is {gain.min():.2f} to {gain.max():.0f} times as large",
            bool((best <= np.minimum(minimax_error, fitted) * slack).all()),
            "ours",
        ),
        Claim(
            "IOT",
            "Figure 5",
            "At the small ε of the figure the constant U/2, at no loss, has a smaller worst-case "
            "error than OPT-ARRAY-AVERAGING",
            f"its error is above {MIDDLE:g} at {free.size} of {X.size} ε"
            + (f", up to {free[-1]:g}" if free.size else ""),
            bool(free.size) and bool((minimax_error[: free.size] > MIDDLE).all()),
            "ours",
        ),
    )


STUDY = Study(
    name="iot:fig5",
    place="IOT, figure 5",
    title="The cap of least worst-case error against ε",
    make=stairs,
    seconds=3.0,
    altered=True,
)
"""Figure 5."""
