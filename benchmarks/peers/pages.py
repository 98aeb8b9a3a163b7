"""The file of results, and the tables of the page that are made from it."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import code_lines

from hexveil.base import atomic_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

RESULTS = Path(__file__).resolve().with_name("results.json")
PAGE = RESULTS.parents[2] / "docs" / "understand" / "other-libraries.md"
BEGIN, END = "<!-- {}: begin -->", "<!-- {}: end -->"
KINDS = ("flights", "big", "surat-6", "warsaw-6", "code", "versions")
CONSTANT = "one constant, the best there is"
NOTHING: dict[str, Any] = {"sets": {}, "rows": []}

Found = dict[str, Any]


def load() -> Found:
    """Return the committed results."""
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else dict(NOTHING)


def commit(sets: Mapping[str, Any], new: Found, order: Sequence[str]) -> None:
    """Put a new row in the place of that of the same way and set; write file and page."""
    results = load()
    by_key = {(row["set"], row["name"]): row for row in (*results["rows"], new)}
    ranked = sorted(by_key, key=lambda key: (KINDS.index(key[0]), order.index(key[1])))
    merged = {
        "sets": {**results["sets"], **sets},
        "rows": [by_key[key] for key in ranked],
    }
    atomic_files.write(RESULTS, (json.dumps(merged, indent=1) + "\n").encode())
    atomic_files.write(PAGE, filled(PAGE.read_text("utf-8"), merged).encode())


def filled(page: str, results: Found) -> str:
    """Return the page with its tables made anew."""
    for kind in KINDS:
        before, rest = page.split(BEGIN.format(kind))
        _, after = rest.split(END.format(kind))
        table = "\n".join(lines(kind, results))
        page = f"{before}{BEGIN.format(kind)}\n{table}\n{END.format(kind)}{after}"
    return page


def lines(kind: str, results: Found) -> Iterator[str]:
    """Yield the lines of one table."""
    if kind == "code":
        yield from code_lines.table()
        return
    if kind == "versions":
        yield from versions(results)
        return
    about = results["sets"].get(kind)
    if not about:
        yield "Not measured."
        return
    yield f"| | settings | mean absolute error, {about['unit']} | CPU seconds | runs |"
    yield "|---|---|---|---|---|"
    rows = [row for row in results["rows"] if row["set"] == kind]
    shown = [(error(row), line(row)) for row in rows]
    shown.append((about["constant"], f"| {CONSTANT} | | {about['constant']:.3g} | | |"))
    yield from (text for _, text in sorted(shown))


def error(row: Found) -> float:
    """Return the mean error of a row; one that failed comes last."""
    return statistics.fmean(row["errors"]) if row["errors"] else float("inf")


def line(row: Found) -> str:
    """Return a row of the table."""
    if row["failed"]:
        return f"| {row['name']} | {settings(row)} | {row['failed']} | | 0 |"
    spread = ""
    if len(row["errors"]) > 1:
        deviation = statistics.stdev(row["errors"]) / len(row["errors"]) ** 0.5
        spread = f" ± {deviation:.1g}"
    seconds = statistics.fmean(row["cpu"])
    count = len(row["errors"])
    return (
        f"| {row['name']} | {settings(row)} | {error(row):.3g}{spread} | {seconds:.3g} | {count} |"
    )


def settings(row: Found) -> str:
    """Return the settings of a row in words."""
    given = row["settings"]
    if "clipping_range" in given:
        return f'`clipping_range="{given["clipping_range"]}"`'
    if "users" in given:
        return "private presence, by default"
    if given.get("cells"):
        words = f"{given['cells']} cells, {given['rows']} record{'s' * (given['rows'] > 1)} in each"
    else:
        words = f"{given['rows']} records"
    return f"{words}, our private range at ε = 0.2" if given.get("is_ranged") else words


def versions(results: Found) -> Iterator[str]:
    """Yield the table of versions."""
    yield "| library | version | Python |"
    yield "|---|---|---|"
    known = {
        row["library"]: (row["version"], row["python"]) for row in results["rows"] if row["version"]
    }
    for library, (version, python) in known.items():
        yield f"| {library} | {version} | {python} |"
