"""The reference pages name what there is to use."""

import importlib
import re

import pytest

import hexveil as hv
from hexveil.config.fields import FIELDS, option
from hexveil.publishing.estimates.table import COLUMNS
from source_trees import DOCS

SOURCE = DOCS.parent / "src" / "hexveil"


@pytest.fixture(scope="module")
def page():
    """Return the text of the reference page of the library."""
    return (DOCS / "reference" / "python.md").read_text(encoding="utf-8")


def test_every_public_name_is_in_the_reference(page):
    """The reference page names every public name."""
    assert set(hv.__all__) - {"__version__"} <= set(re.findall(r"`hv\.(\w+)", page))


def test_public_names_say_where_they_live():
    """A public name is the very object of its home, and its home exports it."""
    assert [name for name in hv.__all__ if getattr(hv, name, None) is None] == []
    for name in set(hv._HOMES) - {"evaluation", "mechanisms", "theory"}:
        module, _, own_name = hv._HOMES[name].partition(":")
        home = importlib.import_module(module)
        assert getattr(hv, name) is getattr(home, own_name or name), name
        assert name in getattr(home, "__all__", [name])
    assert [name for name in hv.theory.__all__ if not getattr(hv.theory, name).__doc__] == []


def test_every_released_column_is_in_the_reference(page):
    """The reference page names every column of a release."""
    assert [name for name in COLUMNS if f"`{name}`" not in page] == []


def test_every_field_of_a_run_is_described():
    """The page of the run file has a row for every field, with its own option and what it is."""
    text = (DOCS / "reference" / "run-file.md").read_text(encoding="utf-8")
    for (section, name), field in FIELDS.items():
        typed = option(section, name)
        own = "" if typed.startswith("--set") else f", `{typed}`"
        assert f"| `{name}`{own} | {field.description}" in text


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
