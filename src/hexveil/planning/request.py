"""Request for a plan, and the rules of the options that go together.

What is asked for is also a set of words: names of options that were given, options with their value
(`method="joint"`), and what decides which of them have a meaning (private presence, several value
columns, the kind of statistics). A rule of toml refuses some of these words beside
others, or without them: one table, for refusals and the reference page.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib.resources import files
from typing import Any, Literal

from hexveil.accounting.noise_law import NoiseLaw, law_at
from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.base.rational import items_of, to_positive_fraction
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms import CellMechanism, ThresholdMechanism
from hexveil.model.occupancy import Occupancy
from hexveil.model.statistic_terms import MOMENTS, Quantile, term_of

LEAST_USERS, MOST_USERS = 25, 1000
"""Users times epsilon of a map, or of a cell, that find its range; and of a cell above which the
bounds are no worse. Measured: docs/understand/clipping-range.md."""
Method = Literal["joint", "per-cell", "equal-split", "clip-user"]
Objective = Literal["max", "mean"]
ClippingRangeMode = Literal["bounds", "private", "per-cell", "auto"]

PURE = Fraction(0)
"""δ of a pure promise."""
STATISTICS = ("mean", "variance", "sd")
"""What can be published of a cell; sd is the root of the variance, at no further cost."""
NOISED = {"mean": "mean", "variance": "variance", "sd": "variance"}


@dataclass(frozen=True, eq=False)
class Request(ReadOnlyArrays):
    """Checked request; public.

    Attributes
    ----------
    method : str
    mechanism : ThresholdMechanism or CellMechanism
        How one cell is planned; the joint plan does not use it. One that is no threshold mechanism
        publishes each cell in stages of its own.
    statistics : tuple of str
    objective : "max" or "mean"
        Over cells; the methods that plan cells apart look at it for targets only.
    epsilon : Fraction or None
    target : mapping of statistic to ndarray of float, shape (n_cells,), or None
        In value units (squared for the variance).
    clipping_range : "bounds", "private", "per-cell" or "auto"
    range_share : Fraction or None
        Part of epsilon that finds the interval; None chooses it.
    delta : Fraction
        δ of an approximate promise with Gaussian noise; 0 for a pure one.
    edition : str or None
        Tells apart requests that are the same otherwise: another edition is planned anew and pays
        again.
    history : tuple of str
        Digests of the earlier releases that clipping ranges follow from; empty where they do not.
    """

    method: Method
    mechanism: ThresholdMechanism | CellMechanism
    statistics: tuple[str, ...]
    objective: Objective = "max"
    epsilon: Fraction | None = None
    target: Mapping[str, Floats] | None = None
    clipping_range: ClippingRangeMode = "bounds"
    range_share: Fraction | None = None
    edition: str | None = None
    delta: Fraction = PURE
    history: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuse options that no request has: a stranger may have written them.

        Raises
        ------
        InputError
            Naming the option.
        """
        if statistics(self.statistics) != self.statistics:
            raise InputError("request.statistics are not in the order of a plan.")
        for name in ("epsilon", "range_share"):
            number = getattr(self, name)
            if number is not None and number <= 0:
                raise InputError(f"request.{name} must be above 0.")
        for name, goal in (self.target or {}).items():
            if name not in self.noised or not (goal > 0).all():
                raise InputError(f"request.target of {name!r} must be above 0 in each cell.")
        if not 0 <= self.delta < 1:
            raise InputError("request.delta must be from 0 to below 1.")
        if (self.epsilon is None) == (self.target is None):
            raise InputError("it must ask for either a loss or targets.")
        is_average = self.target is not None or self.objective == "mean"
        if self.delta and not (self.method == "joint" and is_average):
            raise InputError(
                'delta goes with method "joint", and within epsilon with objective "mean".'
            )

    @property
    def law(self) -> NoiseLaw:
        """Law of the noise of the cells."""
        return law_at(self.delta)

    @property
    def noised(self) -> tuple[str, ...]:
        """The statistics that noise is added to, each once, the mean first."""
        required = {NOISED[name] for name in self.statistics}
        return tuple(name for name in ("mean", "variance") if name in required)

    @property
    def target_ranges(self) -> list[dict[str, Any]]:
        """Each target's statistic, with its smallest and largest over cells."""
        return [
            {"of": name, "smallest": float(goal.min()), "largest": float(goal.max())}
            for name, goal in (self.target or {}).items()
        ]

    def within(self, epsilon: Fraction) -> Request:
        """Return the request with a privacy loss in place of its epsilon or targets."""
        return replace(self, epsilon=epsilon, target=None)

    def resolve_range(
        self, occupancy: Occupancy, epsilon: Fraction | None
    ) -> Literal["bounds", "private", "per-cell"]:
        """Return the kind of range that is taken at an epsilon: "auto" goes by users times it."""
        if self.clipping_range != "auto":
            return self.clipping_range
        users, cells = occupancy.n_users * (epsilon or Fraction(0)), occupancy.n_cells
        if users < LEAST_USERS or users > MOST_USERS * cells:
            return "bounds"
        several = cells > 1 and self.noised == ("mean",)
        return "per-cell" if several and users >= LEAST_USERS * cells else "private"


def statistics(requested: Sequence[str] | str | None) -> tuple[str, ...]:
    """Return the names of the statistics in one order; raise InputError on others."""
    if requested is None:
        return ("mean",)
    names = tuple(items_of(requested))
    # Duplicates would be published twice under one column name.
    unknown = [name for name in names if name not in STATISTICS]
    if unknown or not names or len(set(names)) < len(names):
        got = ", ".join(map(repr, names)) or "none"
        raise InputError(
            f"statistics must be one or more of {', '.join(STATISTICS)}, each once, got {got}; or "
            'quantiles, shares and histograms, like "p50" (the median), "share<10" and "histogram".'
        )
    return tuple(name for name in STATISTICS if name in names)


def targets_of(stated: object, names: tuple[str, ...], span: float) -> dict[str, float]:
    """Return the target of each statistic, in its units.

    Parameters
    ----------
    stated : number, text like "10%", or mapping of statistic to these
        A percentage is of the span (of its square for a variance), and of records for a share.
    names : tuple of str
        Statistics that need a target.
    span : float

    Raises
    ------
    InputError
        If a target is missing or not above zero.

    Examples
    --------
    >>> targets_of({"p50": "5%", "share<10": "2%"}, ("p50", "share<10"), 60.0)
    {'p50': 3.0, 'share<10': 0.02}
    """
    if isinstance(stated, Mapping):
        text = dict(stated)
    elif len(names) == 1:
        text = {names[0]: stated}
    else:
        raise InputError(
            f"target_error needs a target for each of {' and '.join(names)}: in Python like "
            "{'mean': 2, 'variance': '5%'}, on the command line --set plan.target_error=mean=2 "
            "--set plan.target_error=variance=5%; a deviation is reached through its variance."
        )
    if set(text) != set(names):
        raise InputError(
            f"target_error must name {' and '.join(names)}, got {', '.join(map(str, text))}."
        )
    return {name: _target(text[name], name, span) for name in names}


def _target(stated: Any, name: str, span: float) -> float:  # noqa: ANN401  a number or text
    if not (isinstance(stated, str) and stated.strip().endswith("%")):
        return float(to_positive_fraction(stated, "target_error"))
    if name == "users":
        raise InputError("target_error of users must be a number of units, not a percentage.")
    portion = float(to_positive_fraction(stated.strip().removesuffix("%"), "target_error")) / 100.0
    if name == "variance":
        return portion * span**2
    return portion * span if name in MOMENTS or isinstance(term_of(name), Quantile) else portion


# ---- rules of options ----

PRESENCE = 'protect="presence"'
SEVERAL = "several value columns"
SHAPES = "quantiles, shares or histograms"
UNITS, UNITS_ALONE = "numbers of units beside others", "numbers of units alone"
VARIANCES = "variances"
STAGED = "a mechanism with stages of its own"
DELTA_WITHIN = "delta within epsilon"
RANGES = ('clipping_range="private"', 'clipping_range="per-cell"')


@dataclass(frozen=True)
class Rule:
    """Words that are refused, beside others or without them.

    Attributes
    ----------
    words : tuple of str
        Of what is asked for: each is refused.
    why : str
        Why, for the reference page.
    beside : tuple of str
        Refused beside any of these.
    without : tuple of tuple of str
        Refused unless all of one of these are asked for.
    company : str
        What the words go with, if other words say it better than `without`.
    way_out : str
        What to do.
    sentence : str
        In place of the usual sentence.
    """

    words: tuple[str, ...]
    why: str
    beside: tuple[str, ...] = ()
    without: tuple[tuple[str, ...], ...] = ()
    company: str = ""
    way_out: str = "leave it out"
    sentence: str = ""

    def refused(self, terms: Collection[str]) -> str | None:
        """Return the first word that is refused, if any."""
        excluded = any(word in terms for word in self.beside)
        lacks = bool(self.without) and not any(set(subset) <= set(terms) for subset in self.without)
        if not (excluded or lacks):
            return None
        return next((word for word in self.words if word in terms), None)

    def refusal(self, word: str, terms: Collection[str], describe: Callable[[str], str]) -> str:
        """Return the sentence that refuses a word."""
        if self.sentence:
            return self.sentence.format(option=word)
        option = describe(word) if word.isidentifier() else spoken(word)
        beside = next((spoken(item) for item in self.beside if item in terms), "")
        if not self.company:
            return f"{option} has no meaning with {beside}; {self.way_out}."
        method = next((item for item in terms if item.startswith("method=")), "")
        company = self.company.format(method=method.removeprefix("method="), beside=beside)
        return f"{option} goes with {company}; {self.way_out}."


def spoken(word: str) -> str:
    """Return a word as a sentence has it.

    Examples
    --------
    >>> spoken('method="joint"'), spoken('protect="presence"'), spoken("delta")
    ('method "joint"', 'protect="presence"', 'delta')
    """
    return word if word == PRESENCE else word.replace("=", " ", 1)


def _rules() -> Iterator[Rule]:
    """Yield the rules of option_rules.toml, in the order in which they are looked at."""
    table = tomllib.loads((files(__package__) / "option_rules.toml").read_text("utf-8"))
    for entry in table["rule"]:
        without = tuple(map(tuple, entry.pop("without", ())))
        words, beside = (tuple(entry.pop(name, ())) for name in ("words", "beside"))
        yield Rule(words, beside=beside, without=without, **entry)


RULES = tuple(_rules())


def broken_rules(terms: Collection[str]) -> Iterator[tuple[Rule, str]]:
    """Yield the rules that are broken, each with the word that it refuses."""
    for rule in RULES:
        word = rule.refused(terms)
        if word is not None:
            yield rule, word


def refuse(
    terms: Collection[str],
    describe: Callable[[str], str] = str,
    only: Collection[str] | None = None,
) -> None:
    """Refuse options that do not go together, or `only` these words.

    `describe` adds where an option was given.

    Raises
    ------
    InputError
        With what the first such option goes with.
    """
    for rule, word in broken_rules(terms):
        if only is not None and word not in only:
            continue
        raise InputError(rule.refusal(word, terms, describe))
