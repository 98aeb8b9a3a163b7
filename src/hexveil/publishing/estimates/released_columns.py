"""Columns of a release: their names, and their descriptions by templates/columns.txt."""

from __future__ import annotations

from hexveil.report.templates import render_sentence

PLACE = ("cell", "hexagon", "slot", "slot_end", "starts_at_utc", "users", "records")
NOISED = ("noisy", "raw", "scale", "bias", "error", "bound95", "low", "high", "quality")
ROOT = ("raw", "bound95", "low", "high", "quality")
"""A standard deviation has no noise of its own, so it has neither scale nor bias."""
STATISTICS = {"mean": NOISED, "variance": NOISED, "sd": ROOT}
POSTERIOR = ("mean_estimate", "mean_expected_error")
"""Columns of means under a private range that have a posterior
(publishing/estimates/posterior_estimates.py)."""
TODAY = ("mean_today", "mean_today_low", "mean_today_high")
"""Columns of means that remember earlier releases (publishing/memory/): the day alone."""
COLUMNS = (*PLACE, *(f"{name}_{key}" for name, keys in STATISTICS.items() for key in keys))
"""Columns of releases within public bounds, without smoothed estimates; those that no step made are
absent."""
SMOOTHED = tuple(f"{name}_smoothed" for name in STATISTICS)
ALL_COLUMNS = frozenset((*COLUMNS, *POSTERIOR, *TODAY, *SMOOTHED))
_TEMPLATE = "columns.txt"


def split_column(name: str) -> tuple[str, str]:
    """Return the statistic and the key of a released column; two empty texts for other columns.

    Examples
    --------
    >>> split_column("mean_raw"), split_column("users"), split_column("mean_of_travel")
    (('mean', 'raw'), ('', ''), ('', ''))
    """
    # A label column may begin like a statistic: the whole name decides.
    if name not in ALL_COLUMNS or name in PLACE:
        return "", ""
    statistic, _, key = name.partition("_")
    return statistic, key


def describe_column(
    name: str,
    strategy: str = "",
    *,
    smoothed: bool = False,
    staged: bool = False,
    posterior: bool = False,
    gaussian: bool = False,
) -> str:
    """Return the description of a column.

    Parameters
    ----------
    name : str
        Name of the column; any name but those of a release is that of a label.
    strategy : str
        Strategy of the private clipping range, as in the manifest; "" within public bounds.
    smoothed : bool
        Whether the release has smoothed estimates.
    staged : bool
        Whether every cell is published by a mechanism of one cell.
    posterior : bool
        Whether the interval of the average is that of its posterior.
    gaussian : bool
        Whether the noise is Gaussian, under a δ.

    Examples
    --------
    >>> describe_column("mean_raw"), describe_column("route")
    ('average with its noise, clamped to the bounds', 'public label of the cell')
    """
    statistic, key = split_column(name)
    if not statistic:
        return render_sentence(_TEMPLATE, "place", name=name)
    return render_sentence(
        _TEMPLATE,
        f"gaussian_{key}" if gaussian and key in ("scale", "bound95") else key,
        statistic=statistic,
        strategy=strategy,
        smoothed=smoothed,
        staged=staged,
        posterior=posterior and statistic == "mean",
    )
