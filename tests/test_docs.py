"""README and docs: links lead somewhere, examples run."""

import contextlib
import io
import re
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def named(page):
    """Return a page's name for the list of tests."""
    return str(page.relative_to(ROOT))


def blocks(page, language):
    """Return the code blocks of a page in one language."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page):
    """Every relative link and picture of a page is in the repository."""
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    near = [link.split("#")[0] for link in links if not re.match(r"[a-z]+:|#", link)]
    assert [link for link in near if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_examples_are_well_formed(page):
    """Every example in Python compiles, and every one in TOML reads."""
    for code in blocks(page, "python"):
        compile(code, named(page), "exec")
    for text in blocks(page, "toml"):
        assert tomllib.loads(text)


def bus_records():
    """Return made-up records of 400 buses around Surat, in the columns that the README names."""
    rng = np.random.default_rng(8)
    rows = 20_000
    bus = rng.integers(0, 400, rows)
    start = datetime(2024, 2, 19, 2, tzinfo=UTC)
    return pa.table(
        {
            "license_plate": [f"GJ05-{b:04d}" for b in bus],
            "speed": rng.uniform(0, 60, rows),
            "lat": 21.17 + 0.02 * rng.standard_normal(rows),
            "lon": 72.83 + 0.02 * rng.standard_normal(rows),
            "observed_at": [start + timedelta(seconds=int(s)) for s in rng.integers(0, 7200, rows)],
        }
    )


def test_readme_python_runs(tmp_path, monkeypatch):
    """The lines of Python in the README make a release of records in the columns it names."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(bus_records(), "records.parquet")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for code in blocks(ROOT / "README.md", "python"):
            exec(compile(code, "README.md", "exec"), {})  # noqa: S102  our own page
    assert printed.getvalue().strip()
    for file in ("manifest.json", "report.html", "cells.csv", "README.txt"):
        assert Path("map-of-today", file).is_file()


def test_readme_run_file_is_a_run_file(tmp_path):
    """The TOML in the README has no field the command does not know."""
    from hexveil.config import load  # noqa: PLC0415  the rest of this file needs no command

    (text,) = blocks(ROOT / "README.md", "toml")
    path = tmp_path / "buses.toml"
    path.write_text(text, encoding="utf-8")
    assert load(str(path)).cells.resolution == 5
