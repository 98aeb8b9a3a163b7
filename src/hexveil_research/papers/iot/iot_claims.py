"""Claims of IOT beside its figures, in the order of the paper.

The checks are in `gains` (sections II and III), `choices` (private choices, records), `extremes`
(QUANTILE's interval), `scaling` (section IV-C), `lengths` and `surrogate` (sections V and VI);
`lemmas` has the cells they are tried on. RW states most of them, too, under other numbers: see
`rw.rw_claims`.
"""

from __future__ import annotations

from hexveil_research.papers.iot import choices, extremes, gains, lengths, scaling, surrogate
from hexveil_research.papers.iot.surrogate import Counts, instances
from hexveil_research.papers.study import Claim, Outcome, Setting, Study

Cells = tuple[Counts, ...]


def claims(setting: Setting) -> tuple[Claim, ...]:
    """Return every claim of IOT that is not one of a figure."""
    cells = instances(setting.seed)
    on_algorithms = (*algorithms(setting, cells), *scaled(setting, cells))
    setting.tell(0.5)
    return (*on_algorithms, *array_lengths(cells))


def algorithms(setting: Setting, cells: Cells) -> tuple[Claim, ...]:
    """Return those of sections II to IV-A."""
    return (
        *gains.exact_median_claims(),
        gains.moved_claim(),
        gains.private_claim(),
        gains.tail_claim(max(2, setting.trials), setting.seed),
        gains.arrays_claim(cells),
        gains.proxy_claim(cells),
        gains.gain_claim(cells),
        gains.median_claim(cells),
        gains.clipped_claim(cells),
        gains.narrow_claim(),
        gains.concentrated_claim(setting.seed),
        gains.root_claim(cells),
        *choices.middle_claims(),
        choices.middle_private_claim(),
        *choices.quantile_claims(),
        *extremes.extremes_claims(),
        *choices.zeros_claims(),
        choices.means_claim(cells),
    )


def scaled(setting: Setting, cells: Cells) -> tuple[Claim, ...]:
    """Return those of section IV-C."""
    return (
        scaling.samples_claim(cells),
        scaling.same_noise_claim(cells),
        *scaling.levy_claims(cells),
        extremes.private_quantiles_claim(setting),
        *scaling.users_claims(cells),
        scaling.levy_limit_claim(),
        scaling.quantile_limit_claim(setting.seed),
        *scaling.figure_claims(setting.seed),
        scaling.fixed_width_claim(setting.seed, max(2, setting.trials)),
    )


def array_lengths(cells: Cells) -> tuple[Claim, ...]:
    """Return those of sections V and VI."""
    return (
        lengths.full_claim(cells),
        *lengths.filled_claims(cells),
        *lengths.best_cap_claims(),
        lengths.order_claim(cells),
        lengths.counts_claim(cells),
        lengths.growing_claim(cells),
        lengths.ends_claim(cells),
        *lengths.concave_claims(cells),
        lengths.convex_claim(cells),
        *surrogate.stationary_claims(cells),
        *surrogate.rule_claims(cells),
        surrogate.ends_claim(cells),
        surrogate.undecided_claim(cells),
    )


def stated(setting: Setting) -> Outcome:
    """Return the claims of IOT beside its figures."""
    return Outcome(claims=claims(setting))


CLAIMS_STUDY = Study(
    name="iot:claims",
    place="IOT, lemmas, propositions and remarks",
    title="What IOT states beside its figures",
    make=stated,
    seconds=6.0,
)
"""For the catalogue."""
