"""COMP's two kinds of axes with our additions: loss against ε, and error against ε.

Source: COMP figures 1 to 8, with ERRATA 3 and 4. Symbols as in `runs`.
What the paper leaves open: the scale of the loss axis (as it is, so that a loss of 0 can be drawn).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hexveil.base.arrays import Floats
from hexveil_research.papers.comp.runs import Run, column, constants_error
from hexveil_research.papers.study import Claim, Line, Panel, Whose, band, line

CELL_LOSS = "privacy loss ε of one cell"
CLOSE = 3e-3
"""Where a joint plan's search ends."""


def drawn_line(name: str, x: Floats, y: Floats, whose: Whose = "paper") -> Line:
    """Return the mean over draws with its band; a plain line where no draw differs."""
    if not np.ptp(y, axis=0).any():
        return line(name, x, y[0], whose=whose)
    return band(name, x, y, whose=whose)


def ends_of(runs: Sequence[Sequence[Run]]) -> str:
    """Return the explanation of the bands."""
    return f"smallest and largest of {len(runs)} draws" if len(runs) > 1 else ""


def loss_panel(title: str, runs: Sequence[Sequence[Run]], joint: Floats) -> Panel:
    """Return privacy loss against ε: COMP figures 1 and 3 to 5, and ours.

    Parameters
    ----------
    title : str
    runs : sequence of sequence of Run
        A row for each draw, a column for each ε.
    joint : ndarray of float, shape (n_draws, n_epsilons)
        `least_loss` at each run's E.
    """
    x = column(runs, "epsilon")[0]
    lines = (
        drawn_line("cells counted, G₁ε", x, column(runs, "counted")),
        drawn_line("CLIP-USER, Kε", x, column(runs, "claimed")),
        drawn_line("exact, CLIP-USER", x, column(runs, "kept_loss"), "ours"),
        drawn_line("exact, nothing cut", x, column(runs, "plain_loss"), "ours"),
        drawn_line("joint plan, same error", x, joint, "ours"),
    )
    return Panel(title, CELL_LOSS, "privacy loss", lines, log_x=True, ends=ends_of(runs))


def error_panel(
    title: str, span: float, runs: Sequence[Sequence[Run]], joint: Floats, unit: str = "km/h"
) -> Panel:
    """Return the largest error over cells against ε: COMP figures 2 and 6 to 8, and ours.

    Parameters
    ----------
    title : str
    span : float
        U, in value units.
    runs : sequence of sequence of Run
    joint : ndarray of float, shape (n_draws, n_epsilons)
        `least_error` at each run's K ε.
    unit : str
        Of a value.
    """
    x = column(runs, "epsilon")[0]
    constant = np.full(x.size, constants_error(span))
    lines = (
        drawn_line("before, E", x, column(runs, "bound")),
        drawn_line("CLIP-USER and caps, halted stage undone", x, column(runs, "capped")),
        drawn_line(
            "CLIP-USER and caps, halted stage kept (printed)", x, column(runs, "capped_halted")
        ),
        drawn_line("joint plan, same loss", x, joint, "ours"),
        line("constants, no loss", x, constant, whose="reference"),
    )
    label = f"worst-case error, {unit} + ({unit})²"
    return Panel(title, CELL_LOSS, label, lines, log_x=True, log_y=True, ends=ends_of(runs))


def loss_claims(
    place: str, subject: str, runs: Sequence[Sequence[Run]], joint: Floats
) -> tuple[Claim, Claim]:
    """Return the gains of exact accounting and the joint plan in figures 1 and 3 to 5.

    Parameters
    ----------
    place : str
        As "Figure 3".
    subject : str
        What the runs are of, for the reader.
    runs, joint
        As for `loss_panel`.
    """
    claimed, exact, suppressed = (
        column(runs, name) for name in ("claimed", "plain_loss", "kept_loss")
    )
    top_epsilon = runs[0][-1].epsilon
    return (
        Claim(
            "COMP",
            place,
            "For most ε the very same release with nothing suppressed loses less than CLIP-USER's "
            f"K ε, by exact accounting ({subject})",
            f"in {(exact < claimed).mean():.0%} of {exact.size} releases; at ε = {top_epsilon:g} "
            f"{_range(exact[:, -1])} against K ε = {claimed[:, -1].mean():.3g}, after CLIP-USER "
            f"itself {_range(suppressed[:, -1])}",
            bool((exact < claimed).mean() > 1 / 2),
            "ours",
        ),
        Claim(
            "COMP",
            place,
            "The joint plan meets the same worst-case error E at less loss than either "
            f"({subject})",
            f"at ε = {top_epsilon:g}: {_range(joint[:, -1])}, "
            f"{_times(claimed[:, -1], joint[:, -1])} K ε; at {(joint == 0).mean():.0%} of all ε "
            "and draws constants meet E, at no loss",
            # The search ends within CLOSE of the least loss, so a tie counts as met.
            bool((joint <= np.minimum(exact, suppressed) * (1 + CLOSE)).all()),
            "ours",
        ),
    )


def error_claims(
    place: str, subject: str, span: float, runs: Sequence[Sequence[Run]], joint: Floats
) -> tuple[Claim, Claim]:
    """Return the gains of the joint plan and of constants in figures 2 and 6 to 8.

    Parameters
    ----------
    place, subject
        As for `loss_claims`.
    span, runs, joint
        As for `error_panel`.
    """
    capped, free = column(runs, "capped"), constants_error(span)
    epsilons = [run.epsilon for run in runs[0]]
    ends = "; ".join(
        f"at ε = {epsilons[i]:g}: {joint[:, i].mean():.0f} against {capped[:, i].mean():.0f}"
        for i in (0, -1)
    )
    above = [e for e, error in zip(epsilons, capped.mean(axis=0), strict=True) if error > free]
    return (
        Claim(
            "COMP",
            place,
            "At the loss K ε that CLIP-USER states, the joint plan's worst-case error is smaller "
            f"({subject})",
            ends,
            bool((joint < capped).all()),
            "ours",
        ),
        Claim(
            "COMP",
            place,
            "For most ε the constants U/2 and U²/8, which cost no privacy, have a smaller "
            f"worst-case error than the release after CLIP-USER and caps (ERRATA 4; {subject})",
            f"its error is above {free:.1f} at {len(above)} of {len(epsilons)} ε"
            + (f", from {above[0]:g} to {above[-1]:g}" if above else ""),
            2 * len(above) > len(epsilons),
            "ours",
        ),
    )


def _range(values: Floats) -> str:
    """Return the mean, of several with the smallest and largest."""
    if len(values) == 1:
        return f"{values[0]:.2g}"
    return f"{values.mean():.2g} ({values.min():.2g} to {values.max():.2g})"


def _times(larger: Floats, smaller: Floats) -> str:
    """Return how many times less than, where it is anything at all."""
    if not smaller.all():
        # A joint plan of constants alone loses nothing, and there is no ratio to state.
        return "nothing against"
    return f"{(larger / smaller).mean():.0f} times less than"
