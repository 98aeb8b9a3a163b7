"""The reference pages name what there is to use."""

import json
import re

import pytest

import hexveil as hv
from source_trees import DOCS, ROOT

SOURCE = DOCS.parent / "src" / "hexveil"


@pytest.fixture(scope="module")
def page():
    """Return the text of the reference page of the library."""
    return (DOCS / "reference" / "python.md").read_text(encoding="utf-8")


def test_every_public_name_is_in_the_reference(page):
    """The reference page names every public name."""
    assert set(hv.__all__) - {"__version__"} <= set(re.findall(r"`hv\.(\w+)", page))


def test_public_names_are_there_and_described():
    """Each loads when it is asked for and says what it is, as every formula does; no other does."""
    assert dir(hv) == sorted(hv.__all__)
    assert [name for name in hv.__all__ if not getattr(hv, name).__doc__] == []
    assert [name for name in hv.theory.__all__ if not getattr(hv.theory, name).__doc__] == []


def test_every_released_column_is_in_the_reference(page):
    """The reference page names every column of a release of means and variances."""
    names = set()
    for file in (ROOT / "tests" / "golden").glob("*.json"):
        if not file.name.startswith(("columns", "distribution", "presence")):
            names |= json.loads(file.read_text(encoding="utf-8"))["columns"]["cells.parquet"].keys()
    assert {"mean_noisy", "variance_raw", "sd_low", "mean_estimate"} <= names
    assert [name for name in names - {"route", "geometry"} if f"`{name}`" not in page] == []


def test_every_formula_is_in_the_reference(page):
    """The reference page names every formula, or the family it belongs to."""
    families = tuple(re.findall(r"`(\w+_)\*`", page))
    alone = [name for name in hv.theory.__all__ if not name.startswith(families)]
    assert [name for name in alone if f"`{name}`" not in page] == []


def test_notation_names_what_the_code_has():
    """Every row of the notation has a letter, names that stand in the code, a unit and a shape."""
    page = (DOCS / "reference" / "notation.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    assert {len(row) for row in rows} == {4}
    code = "\n".join(file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py"))
    names = {
        word
        for row in rows[1:]
        for shown in re.findall(r"`([^`]+)`", row[1])
        for word in re.findall(r"[A-Za-z_]\w+", shown)
    }
    assert len(names) > 20
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", code)] == []
