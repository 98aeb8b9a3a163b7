"""The simulated city beside real records: each named statistic, quantile by quantile.

The study shows the city's own statistics, and claims nothing. `beside` compares them with the
reader's own copies of two sets: it shows ratios alone, city / real, and no quantile of real records
leaves it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from hexveil.simulation.city import City
from hexveil.simulation.city.feed import TIMEZONE
from hexveil_research.city import likeness, track_statistics
from hexveil_research.papers.study import Claim, Outcome, Panel, Setting, Study, line

NAMES = {"surat_itms": "beside Surat", "warsaw_buses": "beside Warsaw"}
ALONE = City(users=311, days=1, seed=1, start="2022-01-01", interval=20)
"""What is shown where there is nothing to compare with."""
LAGGED = "autocorrelation of speed"
"""Statistics of this name are drawn over the time between two records."""


def statistics_study(_: Setting) -> Outcome:
    """Return the statistics of the city alone."""
    return Outcome(panels(_alone(), {"value": "simulated city"}), (untried_claim(),))


def beside(files: Mapping[str, Path]) -> Outcome:
    """Return the ratios of the city to real sets.

    Parameters
    ----------
    files : dict of str to Path
        By the names of `likeness.COUNTERPARTS`.

    Privacy
    -------
    Ratios are computed from values and positions, without protection: as private as the records.
    """
    compared = {
        name: likeness.compare(name, pyarrow.parquet.read_table(file))
        for name, file in files.items()
    }
    # From here on ratios alone: the tables in `compared` hold quantiles of private records.
    verdicts = likeness.verdict(compared)
    line_names = {name: NAMES[name] for name in compared}
    return Outcome(panels(verdicts, line_names, ratios=True), claims(verdicts, tuple(compared)))


def _alone() -> pa.Table:
    """Return the city's own statistics of one day."""
    tables = (track_statistics.tracks(pa.Table.from_batches([batch])) for batch in ALONE.batches())
    return track_statistics.statistics(pa.concat_tables(tables), TIMEZONE)


def panels(
    table: pa.Table, line_names: dict[str, str], *, ratios: bool = False
) -> tuple[Panel, ...]:
    """Return a panel for each statistic with quantiles, and one of the autocorrelation.

    Parameters
    ----------
    table : pyarrow.Table
        statistic, quantile, and a column for each line.
    line_names : dict
        What each of those columns is called.
    ratios : bool
        Whether the numbers are ratios, of which one half and two are the limits.
    """
    groups: dict[str, list[dict[str, float]]] = {}
    for row in table.to_pylist():
        lagged = row["statistic"].startswith(LAGGED)
        if lagged or row["quantile"] is not None:
            groups.setdefault(LAGGED if lagged else row["statistic"], []).append(row)
    drawn = []
    for title, rows in groups.items():
        x = (
            [*track_statistics.LAGS.values()]
            if title == LAGGED
            else [row["quantile"] for row in rows]
        )
        lines = [line(line_names[name], x, [row[name] for row in rows]) for name in line_names]
        if ratios:
            lines += [
                line(name, x, [end] * len(x), whose="reference")
                for name, end in (("twice", likeness.WITHIN), ("half", 1 / likeness.WITHIN))
            ]
        axes = "Seconds between records" if title == LAGGED else "Quantile (1: the largest)"
        label = "City / real" if ratios else _unit(title)
        drawn.append(Panel(title, axes, label, tuple(lines), log_y=ratios, log_x=title == LAGGED))
    return tuple(drawn)


def _unit(statistic: str) -> str:
    """Return the unit of a statistic."""
    if statistic == LAGGED:
        return "Correlation"
    return "Speed (km/h)" if statistic.startswith("speed") else "Number"


def claims(verdicts: pa.Table, sets: tuple[str, ...]) -> tuple[Claim, ...]:
    """Return per statistic whether every quantile is within a factor of two of a real set's."""
    judged = []
    rows = verdicts.to_pylist()
    for statistic in dict.fromkeys(row["statistic"] for row in rows):
        quantiles = [row for row in rows if row["statistic"] == statistic]
        # Of the sets, the one that is nearer.
        nearest = [min((row[name] for name in sets), key=_far) for row in quantiles]
        n_holding = sum(row["holds"] for row in quantiles)
        judged.append(
            Claim(
                "hexveil",
                "the simulated city",
                f"{statistic}: within a factor of {likeness.WITHIN:g} of a real set's",
                f"city / real {min(nearest):.2f} to {max(nearest):.2f}; {n_holding} of "
                f"{len(quantiles)} hold, beside "
                f"{' or '.join(NAMES[name].removeprefix('beside ') for name in sets)}",
                n_holding == len(quantiles),
                "ours",
            )
        )
    return tuple(judged)


def _far(ratio: float) -> float:
    """Return how far a ratio is from one, either way; infinite for one that is no positive number.

    Examples
    --------
    >>> _far(0.5) == _far(2.0), _far(-1.0)
    (True, inf)
    """
    return abs(float(np.log(ratio))) if ratio > 0 else np.inf


def untried_claim() -> Claim:
    """Return the claim that takes real records to try."""
    return Claim(
        "hexveil",
        "the simulated city",
        f"Every statistic is within a factor of {likeness.WITHIN:g} of a real set's",
        "it needs real records: hexveil_research.papers.city_statistics.beside",
        None,
        "ours",
    )


STUDIES = (
    Study(
        "city:statistics",
        "hexveil, the simulated city",
        "The simulated city beside real records",
        statistics_study,
        seconds=25,
        draws=False,
    ),
)
"""The city's study."""
