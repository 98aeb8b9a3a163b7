"""The file of results, and the tables of the page that are made from it."""

from __future__ import annotations

import ast
import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexveil.base import atomic_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

FOLDER = Path(__file__).resolve().parent
CUT = ("cut", "some_of_each")
"""Functions of common.py that choose the records of each user by hand."""
OTHERS = ("main", "presence", "published", "quantiles")
"""Functions of a library's script that are not about averages where values are private."""
LEFT = {
    "hexveil": ("", "what counts as public; the bounds"),
    "diffprivlib": (
        "cut by hand",
        "choosing the records; dividing ε by their number; the bounds; a sum of all queries",
    ),
    "opendp": (  # its script has both ways of the table
        "cut by hand for public lengths",
        "declaring the data's margins correctly; whole numbers; the bounds",
    ),
    "pipeline-dp": ("", "both contribution limits; the cells; the bounds"),
    "tmlt.analytics": ("", "both contribution limits; the cells; the bounds; starting Spark"),
}
"""Of each library, whether its script needs records cut by hand, and what it leaves to its user."""
RESULTS = FOLDER / "results.json"
PAGE = RESULTS.parents[2] / "docs" / "understand" / "other-libraries.md"
BEGIN, END = "<!-- {}: begin -->", "<!-- {}: end -->"
KINDS = ("flights", "big", "surat-6", "warsaw-6", "quantiles", "code", "versions")
CONSTANT = "one constant, the best there is"
NOTHING: dict[str, Any] = {"sets": {}, "rows": []}
STATISTICS = ("p50", "p85", "share")

Found = dict[str, Any]


def load() -> Found:
    """Return the committed results."""
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else dict(NOTHING)


def commit(sets: Mapping[str, Any], new: Found, order: Sequence[str], part: str = "") -> None:
    """Put a new row in the place of that of the same way and set; write file and page.

    Rows of quantiles.py are a part of their own.
    """
    results = load()
    old = results.get(part, NOTHING) if part else results
    by_key = {(row["set"], row["name"]): row for row in (*old["rows"], new)}
    ranked = sorted(by_key, key=lambda key: (KINDS.index(key[0]), order.index(key[1])))
    merged = {"sets": {**old["sets"], **sets}, "rows": [by_key[key] for key in ranked]}
    _write(results | ({part: merged} if part else merged))


def _write(merged: Found) -> None:
    """Write the file of results and the page."""
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
        yield from code()
        return
    if kind == "versions":
        yield from versions(results)
        return
    if kind == "quantiles":
        yield from quantiles(results.get("quantiles", NOTHING))
        return
    about = results["sets"].get(kind)
    if not about:
        yield "Not measured."
        return
    yield f"| | protects | settings | mean absolute error, {about['unit']} | CPU seconds | runs |"
    yield "|---|---|---|---|---|---|"
    yield f"| {CONSTANT} | | | {about['constant']:.3g} | | |"
    rows = [row for row in results["rows"] if row["set"] == kind]
    for row in sorted(rows, key=lambda row: (protected(row), error(row))):
        yield line(row)


def error(row: Found) -> float:
    """Return the mean error of a row; one that failed comes last."""
    return statistics.fmean(row["errors"]) if row["errors"] else float("inf")


def line(row: Found) -> str:
    """Return a row of the table."""
    start = f"| {row['name']} | {protected(row)} | {settings(row)}"
    if row["failed"]:
        return f"{start} | {row['failed']} | | 0 |"
    spread = ""
    if len(row["errors"]) > 1:
        deviation = statistics.stdev(row["errors"]) / len(row["errors"]) ** 0.5
        spread = f" ± {deviation:.1g}"
    seconds = statistics.fmean(row["cpu"])
    count = len(row["errors"])
    return f"{start} | {error(row):.3g}{spread} | {seconds:.3g} | {count} |"


VALUES_ALONE = (
    "diffprivlib",
    "opendp, lengths",
    *(f"hexveil, {way}" for way in ("auto", "bounds", "private")),
)
"""Ways of averages for which numbers of records are public."""


def protected(row: Found) -> str:
    """Return what a way of averages protects: values, or presence too."""
    name = row["name"].removesuffix(", our range")
    return "values" if name in VALUES_ALONE else "presence"


def settings(row: Found) -> str:
    """Return the settings of a row in words."""
    given = row["settings"]
    if "clipping_range" in given:
        words = f'`clipping_range="{given["clipping_range"]}"`'
        return f"{words}, by default" if given["clipping_range"] == "auto" else words
    if "users" in given:
        return "private presence, by default"
    if given.get("cells"):
        words = f"{_many(given['cells'], 'cell')}, {_many(given['rows'], 'record')} in each"
    else:
        words = _many(given["rows"], "record")
    return f"{words}, our private range at ε = 0.2" if given.get("is_ranged") else words


def quantiles(found: Found) -> Iterator[str]:
    """Yield the table of medians, 85th percentiles and shares, by set and promise."""
    yield "| set | way | protects | settings | p50 | p85 | share | runs |"
    yield "|---|---|---|---|---|---|---|---|"
    for which, constants in found["sets"].items():
        figures = " | ".join(f"{constants[name]:.3g}" for name in STATISTICS)
        yield f"| {which} | {CONSTANT} | | | {figures} | |"
        rows = [row for row in found["rows"] if row["set"] == which]
        for row in sorted(rows, key=lambda row: (row["promise"], *_means(row))):
            means = " | ".join(f"{one:.3g}" for one in _means(row))
            words = settings({"settings": row["settings"] | {"is_ranged": row["is_ranged"]}})
            told = "by default" if "protect" in row["settings"] else words
            shown = f"{row['name']} | {row['promise']} | {told} | {means} | {row['runs']}"
            yield f"| {which} | {shown} |"


def _means(row: Found) -> tuple[float, ...]:
    return tuple(row["means"][name] for name in STATISTICS)


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number > 1)}"


def versions(results: Found) -> Iterator[str]:
    """Yield the table of versions."""
    yield "| library | version | Python |"
    yield "|---|---|---|"
    known = {
        row["library"]: (row["version"], row["python"]) for row in results["rows"] if row["version"]
    }
    for library, (version, python) in known.items():
        yield f"| {library} | {version} | {python} |"


def code_lines(library: str) -> int:
    """Return the lines of a library's functions, without blank lines, comments and docstrings."""
    file = FOLDER / f"by_{library.replace('-', '_').replace('.', '_')}.py"
    return sum(_lengths(file, lambda name: name not in OTHERS))


def cut_lines() -> int:
    """Return the lines that choose records of each user by hand."""
    return sum(_lengths(FOLDER / "common.py", lambda name: name in CUT))


def _lengths(file: Path, wanted: Callable[[str], bool]) -> Iterator[int]:
    text = file.read_text("utf-8")
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for function in functions:
        if not wanted(function.name):
            continue
        lines = text.splitlines()[function.lineno - 1 : function.end_lineno]
        first = function.body[0]
        documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        skipped = range(first.lineno, (first.end_lineno or 0) + 1) if documented else range(0)
        yield sum(
            bool(line.strip()) and not line.strip().startswith("#") and number not in skipped
            for number, line in enumerate(lines, function.lineno)
        )


def code() -> Iterator[str]:
    """Yield the lines of the page's table."""
    yield "| | lines | and by hand | left to you |"
    yield "|---|---|---|---|"
    for library, (cut, left) in LEFT.items():
        by_hand = f"{cut_lines()} lines: {cut}" if cut else ""
        yield f"| {library} | {code_lines(library)} | {by_hand} | {left} |"
