"""Labels and names that are code elsewhere: every output shows them as the texts they are."""

import csv
import io
import re
import shutil
import subprocess
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from markdown_it import MarkdownIt

import hexveil as hv
from chromium_flags import FLAGS
from golden_releases import elements
from hexveil.base import arrow_tables
from hexveil.cli import app
from hexveil.model.cells import CellTable
from hexveil.publishing import folder
from hexveil.publishing.dossier import dossier
from hexveil.publishing.estimates.accuracy import accuracy_statement
from hexveil.publishing.estimates.places import with_places
from hexveil.publishing.estimates.table import build_table
from hexveil.publishing.folder import round_to_intervals
from hexveil.publishing.markup import clean
from mechanisms import measuring
from mechanisms.setting import dataset_of, manifest_of, plan_of
from publishing.releases import statements_of

SCRIPT = "<script>document.documentElement.dataset.pwned=1</script>"
NASTY = (
    SCRIPT,
    "</script><script>document.documentElement.dataset.pwned=2</script>",
    "<img src=x onerror=document.documentElement.dataset.pwned=3>",
    "\"'><svg onload=document.documentElement.dataset.pwned=4>",
    "javascript:document.documentElement.dataset.pwned=5",
    "<!--<script>",
    "]]>",
    "{{ 7*7 }}{% raw %}",
    "${document.documentElement.dataset.pwned=6}`",
    "@{value}{safe}$name",
    "a\\b\\u003cscript\\u003e",
    "&lt;b&gt;&amp;",
    'say "x", twice',
    "two\nlines",
    "\u2028line\u2029paragraph",
    "\u202egnp.exe\u2066",
    "\ufeffmark",
    '=HYPERLINK("http://example.org";"x")',
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "'=1+1",
    "''-1",
    "\uff1d1+1",
    "'tis",
    "=",
    "-",
    "007",
    "1e5",
    "NULL",
    "a/b\\/c",
    "# head\n\n| a |",
    "[x](http://example.org)",
    "\x00nul",
    "\x1b[31mred",
    "\u0301 mark",
    "\U0001f68c",
)
FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
NAME = f'=cmd "{SCRIPT}\n\n# WHAT IS GUARANTEED\u202e'
ROUTE, HOUR = f'=route "{SCRIPT}\n', "+hour"


def release_of(names, place, *, name=NAME, columns=(ROUTE, HOUR)):
    """Write a release whose cells, columns, value, unit and data set have such names."""
    labels = {columns[0]: tuple(names), columns[1]: tuple(reversed(names))}
    cells = CellTable(hv.Labels(*columns), labels=labels)
    dataset = dataset_of(
        [[2] * len(names), [1] * len(names)],
        cells=cells,
        value=f"-speed{SCRIPT}",
        value_unit="<b>km</b>",
        identity={"source": "=a.csv", "version": SCRIPT, "drop_values": "none"},
    )
    plan = plan_of(dataset, 1, 0.7, epsilon=Fraction(1000))
    numbers = {"mean": 31 - 7 * np.arange(len(names))}
    table = build_table(
        plan, dataset.public, measuring.values_of(numbers, plan, dataset.public.lattice)
    )
    ledger, accuracy = {"entry": 7, "chain": "ab" * 32}, accuracy_statement(plan, table, None)
    said = manifest_of(name, dataset, plan, ledger, accuracy)
    written = folder.write(table, said, place)
    shown = round_to_intervals(with_places(table, statements_of(said)))
    return SimpleNamespace(table=shown, said=said, folder=written)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Write the release once."""
    return release_of(NASTY, tmp_path_factory.mktemp("escaping") / "map")


def unescape_formula(text):
    """Return the text that was guarded: one apostrophe less, where guarding put one."""
    return text[1:] if arrow_tables.escape_formula(text[1:]) == text else text


def test_no_field_of_the_csv_begins_a_formula(made):
    """Texts and column names are guarded by one apostrophe, and come back without it."""
    text = (made.folder / "cells.csv").read_bytes().decode()
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    assert [unescape_formula(name) for name in head] == made.table.column_names
    for at, column in enumerate(made.table.columns):
        fields = [row[at] for row in rows]
        if pa.types.is_string(column.type):
            assert not any(field.startswith(FORMULA) for field in fields)
            assert [unescape_formula(field) for field in fields] == column.to_pylist()
        else:
            assert [float(field) for field in fields] == [float(n) for n in column.to_pylist()]
    assert not any(name.startswith(FORMULA) for name in head)
    assert any(float(row[head.index("mean_noisy")]) < 0 for row in rows)


def test_the_page_has_the_same_elements_whatever_the_names(made, tmp_path):
    """No name opens an element or an attribute: only the texts differ from a tame release."""
    tame = release_of(
        [f"r{at}" for at in range(len(NASTY))], tmp_path / "tame", name="d", columns=("r", "h")
    )
    pages = [elements((one.folder / "report.html").read_text("utf-8")) for one in (made, tame)]
    assert pages[0].tags == pages[1].tags
    assert pages[0].attributes == pages[1].attributes
    assert SCRIPT in "".join(pages[0].texts)


def test_no_name_runs_in_a_browser(made, chromium, tmp_path):
    """In a browser the page's own scripts run and show every label; nothing of a label runs."""
    page = (made.folder / "report.html").as_uri()
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    options = ["--headless", *FLAGS, profile, "--virtual-time-budget=5000", "--dump-dom"]
    done = subprocess.run([chromium, *options, page], capture_output=True, check=True, timeout=300)
    shown = elements(done.stdout.decode())
    assert "data-ready" in shown.attributes
    assert not {"data-pwned", "onerror", "onload"} & set(shown.attributes)
    assert "img" not in shown.tags
    text = "".join(shown.texts)
    for name in NASTY:
        assert seen(name) in seen(text), name


def seen(text):
    """Return text as a page shows it, apart from what HTML itself takes away."""
    return re.sub("[\\s\0\ufffd]+", " ", text).strip()


def test_the_readme_keeps_its_lines(made):
    """A name moves nothing: no heading of its own, no letter that turns or hides."""
    text = (made.folder / "README.txt").read_text("utf-8")
    assert [line for line in text.split("\n") if re.fullmatch("[A-Z ]+", line)] == [
        "WHAT IS GUARANTEED",
        "ACCURACY",
        "FILES",
        "COLUMNS",
    ]
    # As `clean` would leave them, their indents kept.
    lines = [line.lstrip(" ") for line in text.split("\n")]
    assert [clean(line) for line in lines] == lines


def test_the_dossier_makes_no_element_of_a_name(made):
    """Parsed as Markdown with HTML allowed: no HTML, link, image or heading from a name."""
    text = dossier(made.folder).to_markdown()
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    flat = [token for one in tokens for token in (one, *(one.children or ()))]
    kinds = {token.type for token in flat}
    assert not kinds & {"html_block", "html_inline", "link_open", "image", "code_inline"}
    assert "\u202e" not in text
    shown = [token.content for token in flat if token.type == "text"]
    assert any("<script>" in content for content in shown)


def test_verify_and_dossier_move_no_cursor(made, tmp_path, capfd):
    """Names of a stranger's folder, of files too, reach the terminal without control letters."""
    place = shutil.copytree(made.folder, tmp_path / "map")
    assert app.run(["verify", str(place)]) == (0, None)
    assert app.run(["dossier", str(place)]) == (0, None)
    (place / "\x1b[2Jx\nmap is as it was").write_text("")
    assert app.run(["verify", str(place)]) == (2, None)
    code, failure = app.run(["dossier", str(place)])
    assert code == 2
    out = capfd.readouterr().out + failure.message
    assert "was added" in out
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", out)
    assert "\nmap is as it was" not in out


def test_errors_move_no_cursor(tmp_path):
    """A sentence that lists a file's columns is one line, whatever they are called."""
    names = {
        "user\x1b[2J\x1b]0;owned\a": ["a"],
        "done\nhexveil: all is well": ["1"],
        "\u202ex": ["2"],
    }
    pq.write_table(pa.table(names), tmp_path / "odd.parquet")
    options = ["--user", "bus", "--value", "speed", "--bounds", "0,60", "--set"]
    options += ["cells.labels=route"]
    code, failure = app.run(["inspect", str(tmp_path / "odd.parquet"), *options])
    assert code == 2
    assert "it has" in failure.message
    assert not re.search("[\x00-\x1f\x7f\u202e]", failure.message)
