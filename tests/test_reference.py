"""The reference pages name what there is to use."""

import re
from pathlib import Path

import pytest

import hexveil as hv
from hexveil.config import FIELDS
from hexveil.config.arguments import option
from hexveil.publishing.table import COLUMNS

DOCS = Path(__file__).resolve().parents[1] / "docs"
SOURCE = DOCS.parent / "src" / "hexveil"


@pytest.mark.parametrize("name", sorted(set(hv.__all__) - {"__version__"}))
def test_every_public_name_is_in_the_reference(name):
    """The reference page names every public name."""
    assert re.search(rf"`hv\.{name}\b", (DOCS / "reference" / "python.md").read_text())


@pytest.mark.parametrize("name", COLUMNS)
def test_every_released_column_is_in_the_reference(name):
    """The reference page names every column of a release."""
    assert f"`{name}`" in (DOCS / "reference" / "python.md").read_text()


@pytest.mark.parametrize(("section", "name"), FIELDS)
def test_every_field_of_a_run_is_described(section, name):
    """The page of the run file has a row for every field, with its option and what it is."""
    page = (DOCS / "reference" / "run-file.md").read_text()
    assert f"| `{name}` | `{option(section, name)}` | {FIELDS[section, name].description}" in page


@pytest.mark.parametrize("name", hv.theory.__all__)
def test_every_formula_is_in_the_reference(name):
    """The reference page names every formula, or the family it belongs to."""
    page = (DOCS / "reference" / "python.md").read_text()
    families = re.findall(r"`(\w+_)\*`", page)
    assert f"`{name}`" in page or name.startswith(tuple(families))


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
        for word in re.findall(r"[A-Za-z_]{2,}", shown)
    }
    assert len(names) > 20
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", code)] == []
