"""Templates: all shipped, complete, and strict about the values that they are given."""

import hashlib
import json
import re
from functools import cache
from pathlib import Path

import pytest
from jinja2 import Environment, meta

import hexveil
from report.pages import page_of, restated

PACKAGE = Path(hexveil.__file__).parent
FOLDER = PACKAGE / "publishing" / "templates"
NAMES = sorted(
    str(path.relative_to(FOLDER))
    for path in FOLDER.rglob("*")
    if path.is_file() and "languages" not in path.parts  # test_languages.py has those
)


@cache
def included_templates():
    """Return the templates that other templates include."""
    included = {
        found
        for other in NAMES
        for found in meta.find_referenced_templates(
            Environment(autoescape=True).parse((FOLDER / other).read_text("utf-8"))
        )
    }
    # The page includes its sentences from the folder of its kind.
    page = (FOLDER / "report.html").read_text("utf-8")
    included |= {
        f"{folder}/{found}"
        for folder in ("page", "presence", "distributions", "columns", "derived")
        for found in re.findall(r"include words ~ \"/([a-z]+\.html)\"", page)
    }
    return included


@cache
def source():
    """Return the text of all modules."""
    return "".join(path.read_text("utf-8") for path in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_every_template_is_used(name):
    """Each is named in the code, or included by another one."""
    # The studio has a page for each of its steps.
    named = f'"{name.removesuffix(".html").removeprefix("studio/")}": "' in source()
    assert name in included_templates() or f'"{name}"' in source() or named


def test_a_value_that_nobody_gave_is_refused(city):
    """Neither an unknown name nor None reaches a reader."""
    absent = restated(city)
    (column,) = absent.manifest["components"]
    column["losses"] = {name: loss for name, loss in column["losses"].items() if name != "at_zero"}
    with pytest.raises(LookupError, match="no attribute 'at_zero'"):
        page_of(absent)
    with pytest.raises(ValueError, match="no value"):
        page_of(restated(city, guarantee={"neighbours": None}))


# ---- What the page carries of other projects is what the lock file names, with its licences ---


VENDOR = PACKAGE / "report" / "assets" / "vendor"
TOOLS = Path(__file__).resolve().parents[2] / "tools" / "page"


def test_the_map_library_is_the_one_that_was_built():
    """The committed file has the recorded hash, and nothing in it can end a script element."""
    text = (VENDOR / "d3.min.js").read_bytes()
    recorded = (VENDOR / "d3.min.js.sha256").read_text().strip()
    assert hashlib.sha256(text).hexdigest() == recorded
    assert b"</" not in text
    assert text.count(b"Permission to use") >= 1  # the licence goes into every page
    assert b"eval(" not in text


def test_each_bundled_module_is_locked_and_licensed():
    """The licence file names each d3 module of the lock file in its version, and its licence."""
    lock = json.loads((TOOLS / "package-lock.json").read_text())["packages"]
    locked = {
        path.removeprefix("node_modules/"): entry["version"]
        for path, entry in lock.items()
        if path.startswith("node_modules/d3-")
    }
    licences = (VENDOR / "d3.LICENSE.txt").read_text()
    assert dict(re.findall(r"^(d3-\w+) ([\d.]+)$", licences, re.MULTILINE)) == locked
    assert "Permission to use" in licences
    assert "Redistribution and use" in licences  # d3-ease
    script = (VENDOR / "d3.min.js").read_text("utf-8")
    assert script.startswith(f"/*\n{licences}*/")


def test_the_lock_file_names_no_host():
    """Packages are named by version and hash alone, so that any registry serves."""
    assert "resolved" not in (TOOLS / "package-lock.json").read_text()
