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
SETS = ("flights", "big", "surat-6", "warsaw-6")
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
    ranked = sorted(by_key, key=lambda key: (SETS.index(key[0]), order.index(key[1])))
    merged = {"sets": {**old["sets"], **sets}, "rows": [by_key[key] for key in ranked]}
    _write(results | ({part: merged} if part else merged))


def _write(merged: Found) -> None:
    """Write the file of results and the page."""
    atomic_files.write(RESULTS, (json.dumps(merged, indent=1) + "\n").encode())
    atomic_files.write(PAGE, filled(PAGE.read_text("utf-8"), merged).encode())


def filled(page: str, results: Found) -> str:
    """Return the page with its tables made anew."""
    found = results.get("quantiles", NOTHING)
    made = {
        "errors": errors(results),
        "quantiles": quantiles(found),
        "code": code(),
        "versions": versions(results),
    }
    for kind, lines in made.items():
        before, rest = page.split(BEGIN.format(kind))
        _, after = rest.split(END.format(kind))
        table = "\n".join(lines)
        page = f"{before}{BEGIN.format(kind)}\n{table}\n{END.format(kind)}{after}"
    return page


def errors(results: Found) -> Iterator[str]:
    """Yield a line for each way, by promise and error, with a column for each set."""
    sets = results["sets"]
    yield _line("", "protects", *(f"{which}, {sets[which]['unit']}" for which in sets), "CPU s")
    yield "|---" * (len(sets) + 3) + "|"
    yield _line(CONSTANT, "", *(f"{about['constant']:.3g}" for about in sets.values()), "")
    at = {(row["name"], row["set"]): row for row in results["rows"]}
    names = {name: protected(row) for (name, _), row in at.items()}

    def over_constant(name: str) -> float:
        shares = [error(at[name, which]) / sets[which]["constant"] for which in sets]
        return statistics.geometric_mean(shares)

    for name in sorted(names, key=lambda name: (names[name], over_constant(name))):
        mine = [at[name, which] for which in sets]
        yield _line(name, names[name], *map(_spread, mine), _seconds(mine[0]))


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _spread(row: Found) -> str:
    """Return the mean error, and after ± its standard error over runs."""
    if row["failed"]:
        return str(row["failed"])
    count = len(row["errors"])
    spread = statistics.stdev(row["errors"]) / count**0.5 if count > 1 else None
    return f"{error(row):.3g}" + ("" if spread is None else f" ± {spread:.1g}")


def _seconds(row: Found) -> str:
    return f"{statistics.fmean(row['cpu']):.3g}" if row["cpu"] else ""


def error(row: Found) -> float:
    """Return the mean error of a row; one that failed comes last."""
    return statistics.fmean(row["errors"]) if row["errors"] else float("inf")


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


def quantiles(found: Found) -> Iterator[str]:
    """Yield a line for each way, by promise, with median, 85th percentile and share of each set."""
    sets = found["sets"]
    yield _line("p50 / p85 / share", "protects", *sets)
    yield "|---" * (len(sets) + 2) + "|"
    yield _line(CONSTANT, "", *(_figures(about) for about in sets.values()))
    means = {(row["name"], row["set"]): row["means"] for row in found["rows"]}
    names = {row["name"]: row["promise"] for row in found["rows"]}
    for name, promise in sorted(names.items(), key=lambda item: (item[1], item[0])):
        each = (means.get((name, which)) for which in sets)
        yield _line(name, promise, *("" if mine is None else _figures(mine) for mine in each))


def _figures(means: Mapping[str, float]) -> str:
    return " / ".join(f"{means[name]:.3g}" for name in STATISTICS)


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
