"""Studies of papers: data for a figure, and claims with their measurements.

A study is made of public or simulated facts, or of the reader's own data (`Setting.data`). Of own
records it states errors, losses and ratios, never a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError

if TYPE_CHECKING:
    from hexveil.mechanisms.priors import ValueDistribution
    from hexveil_research.papers.study_data import Bounds, StudyData


Reading = Literal["as printed", "corrected", "ours"]
Verdict = Literal["holds", "fails", "undecided", "not tried"]
Basis = Literal["its own terms", "other records", "by construction"]
Look = Literal["line", "steps", "points"]
Whose = Literal["paper", "reference", "ours"]


ALTERATIONS = ("data", "values", "bounds", "epsilons", "gamma", "q", "scale")
"""Fields of a setting that make it another than the papers'."""
CELL_LOSS = "privacy loss ε"
"""Label of an axis: the loss of one cell's release."""
PAPER_BOUNDS = Fraction(0), Fraction(65)
"""Of a speed, in km/h."""


@dataclass(frozen=True)
class Claim:
    """A falsifiable sentence, and the finding.

    Attributes
    ----------
    paper : str
        "IOT", "RW", "COMP", "WC", or "hexveil" for what goes past them.
    place : str
        Where it stands, as "Lemma III.2".
    says : str
        The claim, in our words.
    measured : str
        What was computed, with numbers.
    holds : bool or None
        None if it could not be tried, and `measured` says why, or if noise leaves it open.
    reading : str
        "as printed"; "corrected", where the printed one fails (with the erratum); or "ours".
    basis : str
        "its own terms", such as a formula; "other records" than the paper's, which are not
        published; "by construction", where the facts were searched until the claim was met.
    restates : str
        The words of another paper's claim that it repeats; together they count once.
    within_noise : bool
        Whether `holds` is None because the simulation's noise leaves it open.
    """

    paper: str
    place: str
    says: str
    measured: str
    holds: bool | None
    reading: Reading = "as printed"
    basis: Basis = "its own terms"
    restates: str = ""
    within_noise: bool = False

    def __post_init__(self) -> None:
        if self.holds is not None:
            object.__setattr__(self, "holds", bool(self.holds))  # numpy's own kind is no JSON

    @property
    def verdict(self) -> Verdict:
        """Whether it holds, in a word."""
        if self.holds is None:
            return "undecided" if self.within_noise else "not tried"
        return "holds" if self.holds else "fails"


@dataclass(frozen=True, eq=False)
class Line:
    """One line of a panel.

    Attributes
    ----------
    name : str
    x, y : ndarray of float, shape (n_points,)
    low, high : ndarray of float, shape (n_points,), optional
        Ends of the error bars, or of the band where it is drawn as one.
    whose : str
        "paper", "ours" (drawn heavier), or "reference" (a grey rule: a bound, a constant).
    look : str
        "line", "steps" (constant after each point), or "points".
    """

    name: str
    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None
    whose: Whose = "paper"
    look: Look = "line"

    def __post_init__(self) -> None:
        ends = [end for end in (self.low, self.high) if end is not None]
        if any(values.shape != self.x.shape for values in (self.y, *ends)) or len(ends) == 1:
            raise InputError(f"the line {self.name} has parts of different lengths.")


def line(
    name: str,
    x: ArrayLike,
    y: ArrayLike,
    *,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    whose: Whose = "paper",
    look: Look = "line",
) -> Line:
    """Return a line of any sequences of numbers.

    Examples
    --------
    >>> line("constant", [1, 2], [5, 5]).y
    array([5., 5.])
    """
    x_values, y_values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    ends = [None if end is None else np.asarray(end, dtype=float) for end in (low, high)]
    return Line(name, x_values, y_values, ends[0], ends[1], whose, look)


def band(
    name: str, x: ArrayLike, draws: ArrayLike, *, whose: Whose = "paper", look: Look = "line"
) -> Line:
    """Return the mean over draws, with the smallest and largest draw as its ends.

    Parameters
    ----------
    name : str
    x : array_like, shape (n_points,)
    draws : array_like, shape (n_draws, n_points)
    whose, look : str
    """
    # Smallest and largest, not quantiles: there are ten draws at most.
    drawn = np.asarray(draws, dtype=float)
    ends = {"low": drawn.min(axis=0), "high": drawn.max(axis=0)}
    return line(name, x, drawn.mean(axis=0), **ends, whose=whose, look=look)


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes.

    Attributes
    ----------
    title : str
    x_label, y_label : str
        With units.
    lines : tuple of Line
    log_x, log_y : bool
    ends : str
        What the ends of the lines are: "95% interval of the simulation", "smallest and largest of
        10 draws"; empty if there are none.
    """

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    log_x: bool = False
    log_y: bool = False
    ends: str = ""


@dataclass(frozen=True, eq=False)
class Outcome:
    """Outcome of a study. Without panels it has claims alone."""

    panels: tuple[Panel, ...] = ()
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True)
class Setting:
    """Way and data of a study. None stands for the paper's.

    Attributes
    ----------
    trials : int
        Simulated releases of each mechanism.
    seed : int
    data : StudyData or None
        Counts or records in place of the paper's.
    values : ValueDistribution or None
        Simulated values in place of the data's own, or the paper's.
    bounds : pair of Fraction or None
        In place of [0, U] = [0, 65]; those of `data` take precedence.
    epsilons : tuple of str or None
    gamma : int or None
        COMP's gamma: each cell's largest count is multiplied by 1 + gamma.
    q : float or None
        COMP's q: the parameter of the geometric counts.
    scale : int or None
        IOT's and RW's λ.
    tell : callable
        Is told now and then which share of the study is done, from 0 to 1.
    """

    trials: int = 10_000
    seed: int = 0
    data: StudyData | None = None
    values: ValueDistribution | None = None
    bounds: Bounds | None = None
    epsilons: tuple[str, ...] | None = None
    gamma: int | None = None
    q: float | None = None
    scale: int | None = None
    tell: Callable[[float], None] = field(default=lambda _: None, compare=False, repr=False)

    @property
    def is_papers(self) -> bool:
        """Whether all is as in the papers, so that their claims can be judged."""
        return all(getattr(self, name) is None for name in ALTERATIONS)

    @property
    def shown_bounds(self) -> Bounds:
        """Bounds of a value: those of the data, those given, or the papers'."""
        own = None if self.data is None else self.data.bounds
        return own or self.bounds or PAPER_BOUNDS

    @property
    def span(self) -> float:
        """U, the width of the bounds, in value units."""
        lower, upper = self.shown_bounds
        return float(upper - lower)

    @property
    def unit(self) -> str:
        """Unit of a value, for labels: that of own data is not known."""
        return "km/h" if self.data is None else "value units"

    def losses(self, usual: Sequence[str]) -> tuple[str, ...]:
        """Return the values of ε: those given, or a figure's usual ones."""
        return tuple(usual) if self.epsilons is None else self.epsilons


@dataclass(frozen=True)
class Study:
    """A figure or a set of claims of a paper.

    Attributes
    ----------
    name : str
        As "iot:fig3": what the command is told.
    place : str
        As "IOT, figure 3".
    title : str
    make : callable
        Makes the study.
    seconds : float
        What it costs about, at 10^4 trials: for the time left only.
    draws : bool
        Whether it depends on trials and seed.
    altered : bool
        Whether it can be drawn of other data than the paper's.
    values : bool
        Whether it then reads values; counts alone are public.
    """

    name: str
    place: str
    title: str
    make: Callable[[Setting], Outcome] = field(compare=False, repr=False)
    seconds: float = 5.0
    draws: bool = True
    altered: bool = False
    values: bool = False

    def is_private(self, setting: Setting) -> bool:
        """Return whether the outcome shows private values: no guarantee covers it."""
        own = setting.data is not None and setting.data.private
        return self.values and own and setting.values is None


def select_studies(studies: Sequence[Study], names: Sequence[str]) -> tuple[Study, ...]:
    """Return the studies of these names; "iot" selects all names that begin with "iot:".

    Raises
    ------
    InputError
        On a name that no study has.
    """
    selected: dict[str, Study] = {}
    for name in names:
        matching = [study for study in studies if name in (study.name, study.name.split(":")[0])]
        if not matching:
            available = ", ".join(study.name for study in studies)
            raise InputError(f"there is no study {name!r}; name one of {available}.")
        selected |= {study.name: study for study in matching}
    return tuple(selected.values())


def select_altered(studies: Sequence[Study], names: Sequence[str]) -> tuple[Study, ...]:
    """Return the figures of these names that can be drawn of other data; without names all.

    Raises
    ------
    InputError
        On a name that no such study has.
    """
    figures = [study for study in studies if study.altered]
    selected = select_studies(studies, names) if names else tuple(figures)
    for study in selected:
        if not study.altered and study.name in names:
            raise InputError(
                f"{study.name} is of the papers' own settings; omit the options that change them."
            )
    return tuple(study for study in selected if study.altered)
