"""Exact accounting and the joint plan against CLIP-USER, for all three gammas in one picture.

Goes past COMP sections V and VI-B (ERRATA 3 and 4), on three draws of its synthetic setting (q =
0.01, U = 65). COMP figures 3 to 8 have the same, one gamma each, on ten draws, for ε up to 1; here
ε goes to 10, where errors are below what constants miss at no loss and so are of use.
Symbols: K ε is what CLIP-USER states to lose, E the largest error over cells before it, Ē after it
and the caps. Errors are COMP's sum of value units and squared ones.
Counts only: everything here is public and costs no privacy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hexveil.base.arrays import Floats
from hexveil_research.papers.comp.axes import CELL_LOSS, ERROR_UNIT, drawn_line, ends_of
from hexveil_research.papers.comp.runs import (
    GAMMAS,
    Run,
    column,
    constants_error,
    run,
    seeds,
    synthetic_run,
)
from hexveil_research.papers.comp.summed_errors import least_error, least_loss
from hexveil_research.papers.comp_setting import SPAN, comp_setting
from hexveil_research.papers.study import Claim, Outcome, Panel, Setting, Study, line

DRAWS = 3
EPSILONS = tuple(f"{10 ** (-1 + step / 4):.3g}" for step in range(9))
TRADED = ("0.75", "1", "1.5", "2", "3", "5", "8")
"""ε of the loss drawn against the error: below 0.75 constants are better than the release."""
CLOSE = 3e-3
"""Where a joint plan's search ends, as a share."""
PLACE = "Past COMP, section VI-B"


@dataclass(frozen=True, eq=False)
class GammaResults:
    """Results for one gamma; arrays have the shape (n_draws, n_epsilons).

    Attributes
    ----------
    runs : tuple of tuple of Run
        A row for each draw, a column for each ε.
    joint : ndarray of float
        Least loss of a joint plan whose largest error is at most E.
    same_loss : ndarray of float
        Least largest error of a joint plan within the exact loss of the release as it is.
    """

    runs: tuple[tuple[Run, ...], ...]
    joint: Floats
    same_loss: Floats

    def share(self, name: str) -> Floats:
        """Return a loss over K ε: "plain_loss" or "kept_loss" of a run, or "joint"."""
        loss = self.joint if name == "joint" else column(self.runs, name)
        return loss / column(self.runs, "claimed")


def make(setting: Setting) -> Outcome:
    """Return the figure: losses as a share of K ε, and loss against error for one draw."""
    results: dict[int, GammaResults] = {}
    for number, gamma in enumerate(GAMMAS, start=1):
        results[gamma] = solved(setting, gamma)
        setting.tell(0.9 * number / len(GAMMAS))
    panels = (
        share_panel("exact accounting, nothing suppressed", results, "plain_loss"),
        share_panel("joint plan, no larger worst-case error", results, "joint"),
        trade_panel(GAMMAS[0], seeds(setting)[0]),
    )
    return Outcome(panels, claims(results))


def solved(setting: Setting, gamma: int) -> GammaResults:
    """Return the runs and the joint plans of one gamma."""
    drawn = seeds(setting)[:DRAWS]
    runs = tuple(tuple(synthetic_run(gamma, seed, e) for e in EPSILONS) for seed in drawn)
    joint, same_loss = np.empty((2, len(runs), len(EPSILONS)))
    for i, (seed, row) in enumerate(zip(drawn, runs, strict=True)):
        occupancy = comp_setting(gamma, seed)
        # Against E, the bound that CLIP-USER keeps, and not the smaller error that it happens to
        # reach.
        joint[i] = [least_loss(occupancy, SPAN, clip_run.bound) for clip_run in row]
        same_loss[i] = [least_error(occupancy, SPAN, clip_run.plain_loss) for clip_run in row]
    return GammaResults(runs, joint, same_loss)


def share_panel(title: str, results: dict[int, GammaResults], name: str) -> Panel:
    """Return a loss over K ε against ε, a line for each gamma."""
    any_result = next(iter(results.values()))
    x = column(any_result.runs, "epsilon")[0]
    lines = (
        line("CLIP-USER, Kε", x, np.ones(x.size), whose="reference"),
        *(
            drawn_line(f"gamma = {g}", x, result.share(name), "ours")
            for g, result in results.items()
        ),
    )
    label = "privacy loss, as a share of Kε"
    return Panel(title, CELL_LOSS, label, lines, log_x=True, ends=ends_of(any_result.runs))


def trade_panel(gamma: int, seed: int) -> Panel:
    """Return privacy loss against worst-case error of one draw."""
    occupancy = comp_setting(gamma, seed)
    runs = ((tuple(run(occupancy, SPAN, epsilon) for epsilon in TRADED)),)
    bound, capped, counted, claimed, exact = (
        column(runs, name)[0] for name in ("bound", "capped", "counted", "claimed", "plain_loss")
    )
    joint = [least_loss(occupancy, SPAN, error) for error in bound]
    free = constants_error(SPAN)
    lines = (
        line("cells counted, G₁ε", bound, counted),
        line("CLIP-USER and caps, Kε", capped, claimed),
        line("exact, nothing cut", bound, exact, whose="ours"),
        line("joint plan", bound, joint, whose="ours"),
        line("constants, no loss", [free, free], [min(joint), counted.max()], whose="reference"),
    )
    return Panel(
        f"one draw, gamma = {gamma}, ε from {TRADED[0]} to {TRADED[-1]}",
        f"worst-case error, {ERROR_UNIT}",
        "privacy loss",
        lines,
        log_x=True,
        log_y=True,
    )


def claims(results: dict[int, GammaResults]) -> tuple[Claim, ...]:
    """Return the gains of exact accounting and the joint plan over all gammas, draws and ε."""
    return (
        plain_claim(results),
        kept_claim(results),
        joint_claim(results),
        same_loss_claim(results),
    )


def plain_claim(results: dict[int, GammaResults]) -> Claim:
    """Return that the release as it is loses less than is stated after CLIP-USER."""
    shares = {gamma: result.share("plain_loss") for gamma, result in results.items()}
    return Claim(
        "hexveil",
        PLACE,
        "By exact accounting the very same release with nothing suppressed loses less than the Kε "
        "that CLIP-USER states, in every draw and at every ε",
        f"share of Kε, mean and largest: {_mean_and_largest(shares)}",
        all(bool((share < 1).all()) for share in shares.values()),
        "ours",
    )


def kept_claim(results: dict[int, GammaResults]) -> Claim:
    """Return the claim that suppression saves less privacy loss than K suggests."""
    stated, saved = (
        np.concatenate(
            [1 - column(result.runs, a) / column(result.runs, b) for result in results.values()]
        )
        for a, b in (("degradation", "cells"), ("kept_loss", "plain_loss"))
    )
    return Claim(
        "hexveil",
        PLACE,
        "By exact accounting CLIP-USER saves less than half of what K over G₁ says it saves, on "
        "average over draws and ε",
        f"{saved.mean():.0%} of the loss where K says {stated.mean():.0%}; less than K says in "
        f"{(saved < stated).mean():.0%} of {saved.size} releases",
        bool(saved.mean() < stated.mean() / 2),
        "ours",
    )


def joint_claim(results: dict[int, GammaResults]) -> Claim:
    """Return that the joint plan needs a part of K ε, where its error is of use."""
    bound, claimed, exact = (
        np.concatenate([column(result.runs, name) for result in results.values()])
        for name in ("bound", "claimed", "plain_loss")
    )
    joint = np.concatenate([result.joint for result in results.values()])
    # Above that error a constant does as well at no loss, and shares of a loss mean nothing.
    useful = bound < constants_error(SPAN)
    above = joint[useful] >= np.minimum(claimed[useful] / 5, exact[useful])
    return Claim(
        "hexveil",
        PLACE,
        "Where the worst-case error E is below what constants miss, the joint plan meets it at "
        "less than a fifth of Kε, and less than the release as it is loses; elsewhere at no loss",
        f"{useful.sum()} releases of use: {_range(joint[useful] / claimed[useful])} of Kε, "
        f"{_range(joint[useful] / exact[useful])} of the exact loss; the other "
        f"{(~useful).sum()}: a loss of {_range(joint[~useful])}",
        bool(useful.any() and not above.any() and not joint[~useful].any()),
        "ours",
    )


def _range(values: Floats) -> str:
    """Return the smallest and the largest, where there are any."""
    return f"{values.min():.3g} to {values.max():.3g}" if values.size else "none"


def same_loss_claim(results: dict[int, GammaResults]) -> Claim:
    """Return that at one and the same exact loss the joint plan's error is smaller."""
    ratios = {
        gamma: result.same_loss / column(result.runs, "bound") for gamma, result in results.items()
    }
    return Claim(
        "hexveil",
        PLACE,
        "At the exact loss of the release as it is, the joint plan's worst-case error is below E",
        f"share of E, mean and largest: {_mean_and_largest(ratios)}",
        # Beyond the tolerance of the search: a tie is no gain.
        all(bool((ratio < 1 - CLOSE).all()) for ratio in ratios.values()),
        "ours",
    )


def _mean_and_largest(shares: dict[int, Floats]) -> str:
    """Return the mean and the largest share of each gamma."""
    return ", ".join(
        f"{share.mean():.3f} and {share.max():.3f} (gamma = {gamma})"
        for gamma, share in shares.items()
    )


STUDY = Study(
    name="beyond:accounting",
    place="Past COMP, figures 3 to 8",
    title="Privacy loss counted exactly, and planned jointly, against CLIP-USER",
    make=make,
    seconds=11.0,
)
