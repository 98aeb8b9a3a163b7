"""View of a manifest for the page: the facts that it needs, checked once and named."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.base.rational import decimal_text, to_fraction
from hexveil.model.public_metadata import ValueLattice, many_repeats
from hexveil.model.statistic_terms import Histogram, Quantile, Share, column_names, term_of
from hexveil.report.templates import render_sentence, squared, with_unit

RANGE = {"mean": 1.0, "variance": 0.25, "sd": 0.5}
"""Range of a statistic for bounds of width 1: quality grades are relative to it."""
_LATTICE = ("lower", "upper", "quantum")


def describe_repeats(manifest: Mapping[str, Any]) -> str:
    """Return how records of one user and time were counted; "" where few or none were left out."""
    if manifest.get("model") == "presence":
        is_dropped = str(manifest["dataset"].get("repeats", "")).startswith("drop")
        return render_sentence("accuracy.txt", "repeats", dropped="") if is_dropped else ""
    repeats = many_repeats(manifest.get("rules") or {})
    if repeats is None:
        return ""
    dropped, records = (f"{number:,}" for number in repeats)
    share = f"{repeats[0] / repeats[1]:.0%}"
    return render_sentence("accuracy.txt", "repeats", dropped=dropped, records=records, share=share)


@dataclass(frozen=True)
class ManifestView:
    """Public facts of a release, as its manifest states them.

    Attributes
    ----------
    manifest : mapping
        The whole manifest, for facts that are only listed.
    name, value, value_unit : str
        Data set, value column and its unit of measure; "" where not stated.
    lower, upper : float
        Bounds of the values, in value units.
    unit : str
        The privacy unit: user, user-day or user-week.
    promise : str
        The promise, in a sentence.
    label_columns : tuple of str
        Columns that name a cell, with labels.
    shown : str
        The statistic shown; "" for the first.
    """

    manifest: Mapping[str, Any]
    name: str
    value: str
    value_unit: str
    lower: float
    upper: float
    unit: str
    promise: str
    label_columns: tuple[str, ...]
    shown: str = ""

    def has_posterior(self, table: pa.Table) -> bool:
        """Return whether the statistic shown has estimates by a model that includes clipping."""
        return f"{self.statistic}_estimate" in table.column_names

    def estimator(self, table: pa.Table) -> str:
        """Return which of a cell's numbers is shown: "estimate", "smoothed", "raw" or "".

        The estimate where there is one; "" where it has the name of the statistic, as under private
        presence. The smoothed number where its intervals are narrower than the bounds of the raw
        one, for half of the cells at least.
        """
        if self.has_posterior(table):
            return "estimate"
        if f"{self.statistic}_raw" not in table.column_names:
            return ""
        if f"{self.statistic}_smoothed" not in table.column_names or self.constant:
            return "raw"
        widths = self._distances(table, "smoothed")
        is_better = np.median(widths) < np.median(self._column(table, "bound95"))
        return "smoothed" if is_better else "raw"

    def shown_numbers(self, table: pa.Table) -> NDArray[np.float64]:
        """Return the number shown of each cell."""
        return self._column(table, self.estimator(table))

    def half_widths(self, table: pa.Table) -> NDArray[np.float64]:
        """Return the largest distance of each number shown from its limits, or its 95% bound."""
        key = self.estimator(table)
        return self._column(table, "bound95") if key == "raw" else self._distances(table, key)

    def grades(self, table: pa.Table) -> list[str]:
        """Return the quality of the number shown of each cell: its own, or that of the cell."""
        own = f"{self.statistic}_quality"
        name = own if own in table.column_names else "quality"
        return [str(grade) for grade in table[name].to_pylist()]

    def shown_limits(self, table: pa.Table) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the limits of each cell's true number that belong to the number shown."""
        if self.estimator(table) == "smoothed":
            return self._column(table, "low"), self._column(table, "high")
        return self.bound_limits(table)

    def _distances(self, table: pa.Table, key: str) -> NDArray[np.float64]:
        number = self._column(table, key)
        low, high = self._column(table, "low"), self._column(table, "high")
        return np.maximum(number - low, high - number)

    def _column(self, table: pa.Table, key: str) -> NDArray[np.float64]:
        return numbers_of(table, f"{self.prefix}_{key}" if key else self.prefix)

    def bound_limits(self, table: pa.Table) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the limits of each cell's true number, by its posterior or its bound.

        Where other estimates were smoothed, the limits in the table are those of their model.
        """
        low, high = self._column(table, "low"), self._column(table, "high")
        # Without smoothing, the table has the limits by the bound already.
        is_smoothed = f"{self.statistic}_smoothed" in table.column_names
        if self.estimator(table) in ("", "estimate") or not is_smoothed:
            return low, high
        raw, bound = self._column(table, "raw"), self._column(table, "bound95")
        lowest, highest = self.limits
        # The interval of a cell that is cut off reaches to the bound in the table, too.
        return (
            np.where(low <= lowest, lowest, np.maximum(raw - bound, lowest)),
            np.where(high >= highest, highest, np.minimum(raw + bound, highest)),
        )

    def cell_names(self, table: pa.Table) -> list[str]:
        """Return the hexagon or the labels of each cell."""
        labels = self.label_columns or ("cell",)
        columns = ("hexagon",) if "hexagon" in table.column_names else labels
        texts = [[str(text) for text in table[name].to_pylist()] for name in columns]
        return [" \u00b7 ".join(pieces) for pieces in zip(*texts, strict=True)]

    @property
    def accuracy(self) -> Mapping[str, Any]:
        """The manifest's statement on the accuracy of the statistic shown; empty without one."""
        statements = self.manifest.get("accuracy") or ()
        return next((entry for entry in statements if entry["statistic"] == self.statistic), {})

    @property
    def steps(self) -> tuple[Mapping[str, Any], ...]:
        """The steps of the release that read values."""
        # Means beside quantiles and shares have a plan of their own.
        plan = self.manifest.get("moments", self.manifest)["plan"]
        return tuple(plan.get("privacy_steps") or ())

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any], shown: str = "") -> Self:
        """Build from the statements of a value column."""
        dataset, guarantee = manifest["dataset"], manifest["guarantee"]
        lower, upper = (float(to_fraction(manifest["bounds"][end], end)) for end in _LATTICE[:2])
        return cls(
            manifest=manifest,
            name=str(dataset.get("name") or ""),
            value=spoken_value(dataset),
            value_unit=str(dataset.get("value_unit") or ""),
            lower=lower,
            upper=upper,
            unit=str(guarantee["privacy_unit"]),
            promise=str(guarantee["promise"]),
            label_columns=tuple(manifest["grid"].get("columns") or ()),
            shown=shown,
        )

    @property
    def statistics(self) -> tuple[str, ...]:
        """The statistics published for each cell."""
        return tuple(self.manifest["plan"].get("statistics") or ("mean",))

    @property
    def statistic(self) -> str:
        """The statistic that the page or the picture shows, as the prefix of its columns."""
        return self.shown or column_prefixes(self.statistics[:1])[0]

    @property
    def prefix(self) -> str:
        """Prefix of the names of the columns of the numbers shown."""
        return self.statistic

    @property
    def is_change(self) -> bool:
        """Whether it is a comparison, with numbers that have a sign."""
        return self.manifest.get("kind") == "comparison"

    @property
    def noun(self) -> str:
        """The noun of the statistic shown: "average"."""
        return noun(self.statistic)

    @property
    def heading(self) -> str:
        """The statistic shown with the value: "Average speed", "Share of speed up to 10 km/h"."""
        ends = self.bin_ends
        if ends is None:
            return format_heading((self.statistic,), self.value)
        lower, upper = (f"{end:g}" for end in ends)
        upper = with_unit(upper, self.value_unit)
        return render_sentence("statistics.txt", "bin", value=self.value, lower=lower, upper=upper)

    @property
    def histogram(self) -> Histogram | None:
        """The histogram among the published statistics, None without one."""
        terms = map(term_of, self.statistics)
        return next((term for term in terms if isinstance(term, Histogram)), None)

    @property
    def bin_ends(self) -> tuple[float, float] | None:
        """Ends of the bin of a histogram that is shown, in value units; None of another statistic.

        A value on an end counts in the bin below it.
        """
        histogram = self.histogram
        if histogram is None or self.statistic not in column_names(histogram):
            return None
        bounds = self.manifest["bounds"]
        lower, upper, quantum = (to_fraction(bounds[entry], entry) for entry in _LATTICE)
        edges = [0, *histogram.edges(ValueLattice.of((lower, upper), quantum)).tolist()]
        number = column_names(histogram).index(self.statistic)
        return float(lower + edges[number] * quantum), float(lower + edges[number + 1] * quantum)

    @property
    def unit_text(self) -> str:
        """Unit of measure of the statistic shown; "" where not stated."""
        return unit_of_statistic(self.statistic, self.value_unit)

    @property
    def constant(self) -> bool:
        """Whether the release cost nothing: all numbers are constants, and no value was read."""
        return bool(self.manifest["guarantee"].get("epsilon_spent") == "0")

    @property
    def range(self) -> float:
        """Width of the statistic's range: of shares 1; else the span, its half, or its square's.

        Of a variance it is a quarter of the square.
        """
        if is_share(self.statistic):
            return 1.0
        span = self.upper - self.lower
        return (span**2 if self.statistic == "variance" else span) * RANGE.get(self.statistic, 1.0)

    @property
    def limits(self) -> tuple[float, float]:
        """Least and largest value of the statistic shown."""
        if self.statistic == "users":
            return 0.0, math.inf
        if is_share(self.statistic) or self.statistic in ("variance", "sd"):
            return 0.0, self.range
        return self.lower, self.upper

    @property
    def decimals(self) -> int:
        """Digits shown after the point: a step is at most a five-hundredth of the range."""
        if self.statistic == "users":
            return 0
        return min(9, max(0, math.ceil(-math.log10(self.range / 200))))

    def amount(self, number: float) -> str:
        """Return a number with the digits shown and its unit of measure."""
        return with_unit(f"{number:,.{self.decimals}f}", self.unit_text)

    def amount_up(self, number: float) -> str:
        """Return a number rounded up, with its unit: bounds must not be understated."""
        # A hair of tolerance: 0.3 * 10 is 3.0000000000000004, which is not to be shown as 0.4.
        scale = 10.0**self.decimals
        return self.amount(math.ceil(number * scale - 1e-6) / scale)


def numbers_of(table: pa.Table, name: str) -> NDArray[np.float64]:
    """Return a column of numbers; NaN where it has none."""
    return np.asarray(table[name].to_numpy(), dtype=np.float64)


def column_prefixes(statistics: Sequence[str]) -> list[str]:
    """Return the prefixes of the columns of statistics, in order.

    Examples
    --------
    >>> column_prefixes(("mean", "share<10"))
    ['mean', 'share_below_10']
    """
    terms = [(name, term_of(name)) for name in statistics]
    return [
        entry for name, term in terms for entry in ([name] if term is None else column_names(term))
    ]


def is_share(statistic: str) -> bool:
    """Return whether a statistic is a share of records, by its text or prefix."""
    return isinstance(term_of(statistic), (Share, Histogram))


def unit_of_statistic(statistic: str, value_unit: str) -> str:
    """Return the unit of measure of a statistic; "" where it has none."""
    if statistic == "users" or is_share(statistic):
        return ""  # numbers of units and shares are not measured
    return squared(value_unit) if statistic == "variance" else value_unit


def common_unit(statistics: Sequence[str], value_unit: str) -> str:
    """Return the unit of measure of values; "" where none of the statistics has one."""
    return value_unit if any(unit_of_statistic(name, value_unit) for name in statistics) else ""


def noun(statistic: str) -> str:
    """Return the name of a statistic in sentences, by its text or the prefix of its columns.

    Examples
    --------
    >>> noun("mean"), noun("sd"), noun("p50"), noun("p97_5"), noun("share_below_10")
    ('average', 'standard deviation', 'median', '97.5th percentile', 'share below 10')
    """
    kind, number = statistic, ""
    match term_of(statistic):
        case Quantile(level):
            kind, number = "quantile", decimal_text(100 * level)
        case Share(sign, threshold):
            kind, number = sign, decimal_text(threshold)
        case Histogram():
            kind, number = "histogram", statistic.partition("_")[2].lstrip("0")
    return render_sentence("statistics.txt", "noun", statistic=kind, number=number)


def count_heading(column: str, unit: str) -> str:
    """Return the heading of a column of counts in the page's table; "" for one that has none."""
    return render_sentence("statistics.txt", "count_heading", column=column, unit=unit)


def format_heading(statistics: Sequence[str], value: str) -> str:
    """Return the statistics published, with the value.

    Examples
    --------
    >>> format_heading(("mean",), "speed"), format_heading(("mean", "variance", "sd"), "speed")
    ('Average speed', 'Average, variance and standard deviation of speed')
    >>> format_heading(("mean", "p50", "users"), "speed")
    'Average and median of speed, and number of units'
    """
    return render_sentence(
        "statistics.txt",
        "heading",
        statistics=list(statistics),
        nouns=list(map(noun, statistics)),
        value=value,
    )


def spoken_value(dataset: Mapping[str, Any]) -> str:
    """Return the name of a value column without its unit, which stands beside it.

    Examples
    --------
    >>> spoken_value({"value": "Speed (km/h)", "value_unit": "km/h"})
    'Speed'
    >>> spoken_value({"value": "speed_kmh", "value_unit": "km/h"})
    'speed'
    >>> spoken_value({"value": "Speed (km/h)", "value_unit": ""}), spoken_value({})
    ('Speed (km/h)', 'value')
    """
    name, unit = str(dataset.get("value") or "value"), str(dataset.get("value_unit") or "")
    for ending in (f"({unit})", f"[{unit}]", f"_{unit.replace('/', '')}"):
        if unit and name.lower().endswith(ending.lower()):
            return name[: -len(ending)].strip() or name
    return name
