"""The choice among statistics on a page, under both privacy models.

Each statistic has columns, digits, colours and grades of its own, and one heading. The bins of a
histogram can be chosen too, each a map of the share of records in it, and the card draws all bins
of its hexagon. A page is one file for a browser's memory, so bins are left out where all columns
together would have more than `MAX_NUMBERS` rows: the other statistics stay, and the tables have
everything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hexveil.model.statistic_terms import Histogram, term_of
from hexveil.report.manifest_view import ManifestView, column_prefixes, format_heading
from hexveil.report.payload import scale_marks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MAX_NUMBERS = 300_000
"""Cells times statistics from which on a page has no bins."""


@dataclass(frozen=True)
class StatisticChoice:
    """The statistics that a page can show.

    Attributes
    ----------
    views : tuple of ManifestView
        One for each of them, the first one first.
    bins_from : int or None
        Number of the first bin of the histogram among them; None without one.
    has_all : bool
        Whether no statistic was left out.
    """

    views: tuple[ManifestView, ...]
    bins_from: int | None
    has_all: bool = True

    @classmethod
    def of(cls, every: ManifestView, cells: int) -> StatisticChoice:
        """Return the statistics of a release of so many cells that can be chosen."""
        others = [name for name in every.statistics if not isinstance(term_of(name), Histogram)]
        shown = column_prefixes(every.statistics)
        has_all = len(shown) * cells <= MAX_NUMBERS or not others
        views = tuple(replace(every, shown=name) for name in shown)
        n_others = len(column_prefixes(others))
        if not has_all:
            return cls(views[:n_others], None, has_all=n_others == len(shown))
        return cls(views, n_others if n_others < len(shown) else None)

    def data(
        self,
        describe: Callable[[ManifestView], dict[str, Any]],
        grades_of: Callable[[ManifestView], Sequence[str]],
        legend_grades: Sequence[str],
    ) -> dict[str, Any]:
        """Return the data that the page's scripts need to show another statistic.

        Parameters
        ----------
        describe : callable
            Returns the numbers, digits and colours of a view's statistic: `describe_numbers`.
        grades_of : callable
            Returns the quality of each cell.
        legend_grades : sequence of str
            Grades that the legend counts.
        """
        choices = []
        for view in self.views:
            shown = describe(view)
            grades = list(grades_of(view))
            ends: Mapping[str, float] = shown["colour"]
            choices.append(
                shown
                | {
                    "heading": heading_of(view),
                    "marks": scale_marks(ends["low"], ends["high"]),
                    "grades": [grades.count(name) for name in legend_grades],
                }
            )
        return {"choices": choices, "bins": self._bins()}

    def _bins(self) -> dict[str, Any] | None:
        """Return which choices are bins, and the ends of the bins."""
        if self.bins_from is None:
            return None
        pairs = [view.bin_ends for view in self.views[self.bins_from :]]
        ends = [pair for pair in pairs if pair is not None]
        return {
            "first": self.bins_from,
            "ends": [ends[0][0], *(upper for _, upper in ends)],
            "unit": self.views[0].value_unit,
        }

    def sentence_values(self) -> dict[str, Any]:
        """Return everything that the page's template needs of the choice."""
        first = self.views[0]
        return {
            "choices": [heading_of(view) for view in self.views],
            "bins_from": self.bins_from,
            "has_all_statistics": self.has_all,
            "whole_heading": format_heading(first.statistics, first.value),
        }


def heading_of(view: ManifestView) -> str:
    """Return the statistic of a view with the value and its unit of measure."""
    return f"{view.heading}{f', {view.unit_text}' if view.unit_text else ''}"
