"""The data behind a gallery of the papers' figures: small enough to commit, and comparable.

Numbers have five significant digits. The data hold all that a figure shows, so it is drawn from
them without its study. Figures that were made anew agree if nearly all of their
points do: late digits differ between processors, and may move a single choice of a plan.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv

from hexveil_research.papers import study_folders
from hexveil_research.papers.study import Outcome, Panel, Study, line

Figures = dict[str, dict[str, Any]]

Row = Mapping[str, str]

DIGITS = 5
NUMBERS = re.compile(r"\[[-+.,\s\deE]*\]")
"""An array of numbers in JSON."""
CLOSE, FAR = 0.01, 0.25
"""Relative differences: of nearly all points at most, and of every point at most."""
MAX_MOVED = 0.05
"""Share of a figure's points that may differ by more than the smaller one."""
MOST_BARS = 400
"""Error bars of a figure above which it is drawn without: its picture has to load fast."""
CLAIM_FACTS = ("paper", "place", "claim", "reading", "kind", "restates", "verdict", "study")
"""Columns of claims.csv that another processor does not change."""


def figures_of(out: Path, studies: Sequence[Study]) -> Figures:
    """Return the data of studies that a folder of `hexveil reproduce` holds, by their names."""
    figures = {}
    for study in studies:
        folder = study_folders.place(out, study)
        file = folder / f"{folder.name}.csv"
        if file.is_file():
            axes = study_folders.read_summary(folder)["axes"]
            about = {"place": study.place, "title": study.title, "axes": axes}
            figures[study.name] = _without_many_bars(about | {"panels": _panels(file, axes)})
    return figures


def _without_many_bars(figure: dict[str, Any]) -> dict[str, Any]:
    """Return a figure; without error bars if it has very many."""
    lines = [points for panel in figure["panels"].values() for points in panel.values()]
    if sum(len(points.get("low", ())) for points in lines) > MOST_BARS:
        for points in lines:
            points.pop("low", None)
            points.pop("high", None)
        axes = {title: one | {"ends": ""} for title, one in figure["axes"].items()}
        return figure | {"axes": axes}
    return figure


def _panels(file: Path, axes: Mapping[str, Any]) -> dict[str, Any]:
    panels: dict[str, dict[str, dict[str, Any]]] = {title: {} for title in axes}
    for row in pyarrow.csv.read_csv(file).to_pylist():
        points = panels[row["panel"]].setdefault(row["line"], {"whose": row["whose"]})
        for part in ("x", "y", "low", "high"):
            if row[part] is not None:
                points.setdefault(part, []).append(_rounded(row[part]))
    return panels


def outcome_of(figure: Mapping[str, Any]) -> Outcome:
    """Return the panels of a figure, as an outcome without claims.

    Parameters
    ----------
    figure : mapping
        Of `figures_of`.
    """
    panels = []
    for title, lines in figure["panels"].items():
        axes = dict(figure["axes"][title])
        looks = axes.pop("looks", {})
        drawn = (line(name, **parts, look=looks.get(name, "line")) for name, parts in lines.items())
        panels.append(Panel(title, lines=tuple(drawn), **axes))
    return Outcome(tuple(panels))


def _rounded(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")


def text_of(figures: Figures) -> str:
    """Return figures as JSON text, a line of text for each array of numbers.

    Examples
    --------
    >>> print(text_of({"fig1": {"x": [1.0, 2.0]}}), end="")
    {
     "fig1": {
      "x": [ 1.0, 2.0 ]
     }
    }
    """
    plain = json.dumps(figures, indent=1, ensure_ascii=False)
    # An array stands on one line: a changed curve is then a changed line of the file.
    return NUMBERS.sub(lambda array: " ".join(array[0].split()), plain) + "\n"


def differences(committed: Mapping[str, Any], remade: Mapping[str, Any]) -> list[str]:
    """Return in which respects a figure that was made anew is another; none if it agrees.

    Parameters
    ----------
    committed, remade : dict
        A figure of `figures_of`.
    """
    shape, new_shape = (_shape(figure) for figure in (committed, remade))
    if shape != new_shape:
        return [f"its lines are others: {sorted(set(shape) ^ set(new_shape))}"]
    heights, new_heights = (_heights(figure) for figure in (committed, remade))
    gap = np.abs(new_heights - heights) / np.maximum(np.abs(heights), 1e-12)
    found = []
    if (moved := (gap > CLOSE).mean()) > MAX_MOVED:
        found.append(f"{moved:.0%} of its points differ by more than {CLOSE:.0%}")
    if gap.max() > FAR:
        found.append(f"a point differs by {gap.max():.0%}")
    return found


def _shape(figure: Mapping[str, Any]) -> list[tuple[object, ...]]:
    return [
        (panel, name, line["whose"], *line["x"])
        for panel, lines in figure["panels"].items()
        for name, line in lines.items()
    ]


def _heights(figure: Mapping[str, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    lines = (line for panel in figure["panels"].values() for line in panel.values())
    return np.concatenate([np.asarray(line["y"], dtype=np.float64) for line in lines])


def claim_differences(committed: Iterable[Row], remade: Iterable[Row]) -> list[str]:
    """Return which claims or verdicts are others; their measurements may differ in late digits."""
    old, new = (
        Counter(tuple(row[name] for name in CLAIM_FACTS) for row in rows)
        for rows in (committed, remade)
    )
    return [" | ".join(facts) for facts in ((old - new) + (new - old))]


def read_claims(file: Path) -> list[dict[str, str]]:
    """Return the rows of a claims.csv."""
    with file.open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))
