"""README and docs: links lead somewhere, examples run, commands and options exist."""

import ast
import contextlib
import io
import json
import re
import shlex
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
import test_how_to
from hexveil.cli import main
from source_trees import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NOTEBOOKS = sorted(ROOT.glob("docs/notebooks/*.ipynb"))
NOT_RUN = {
    "docs/how-to/city.md": "a month of a city takes minutes; tests/simulation/city has it",
    "docs/how-to/schedulers/airflow.md": "needs Airflow",
    "docs/how-to/schedulers/dagster.md": "needs Dagster",
    "docs/how-to/spark.md": "needs Spark and a lake; tests/records/spark has it",
    "docs/understand/audit.md": "an audit takes minutes; tests/research/audit has it",
}
"""Pages whose lines of Python are not run, and why; those that a test follows are in FOLLOWED."""
FOLLOWED = {
    "README.md": "tests/test_docs.py",
    "docs/understand/other-libraries.md": "tests/test_docs.py",
    "docs/understand/questions.md": "tests/test_questions.py",
    "docs/start/first-map.md": "tests/test_how_to.py",
    **{f"docs/how-to/{page}": "tests/test_how_to.py" for page in test_how_to.FOLLOWED},
}
"""Pages that are followed from top to bottom, with the test that does."""


def named(page):
    """Return a page's name for the list of tests."""
    return str(page.relative_to(ROOT))


def blocks(page, language):
    """Return the code blocks of a page in one language."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def near(page):
    """Return the relative links and pictures of a page or notebook, without their anchors."""
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    return [link.split("#")[0] for link in links if not re.match(r"[a-z]+:|#", link)]


def test_links_lead_somewhere():
    """Every relative link and picture of a page is in the repository."""
    links = [(page, link) for page in (*PAGES, *NOTEBOOKS) for link in near(page)]
    assert [(named(page), to) for page, to in links if not (page.parent / to).exists()] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_outputs(path):
    """Outputs hold noise, so they are made where a notebook is shown, and are not stored."""
    book = json.loads(path.read_text(encoding="utf-8"))
    assert book["nbformat"] == 4
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    for cell in book["cells"]:
        assert cell["cell_type"] in {"markdown", "code"}
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_the_ten_lines_are_a_notebook():
    """The notebook of publishing has the statements of the README, in their order."""
    cells = json.loads((ROOT / "docs/notebooks/publishing-buses.ipynb").read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    shown, (asked,) = "\n".join(code), blocks(ROOT / "README.md", "python")
    steps, lines = ([ast.dump(one) for one in ast.parse(text).body] for text in (shown, asked))
    # The last line publishes, which the notebook does in two steps.
    assert [one for one in steps if one in lines] == lines[:-1]


def words(page):
    """Return the number of words of a page; bars of tables and marks alone are none."""
    return len(re.findall(r"\S*\w\S*", page.read_text(encoding="utf-8")))


def test_the_docs_stay_short():
    """All pages have at most 70,000 words together, and a decision has at most 600."""
    pages = [page for page in PAGES if page.name not in ("CHANGELOG.md", "SECURITY.md")]
    assert sum(map(words, pages)) <= 70_000
    assert [named(page) for page in pages if "decisions" in page.parts and words(page) > 600] == []


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


def has_python(page):
    """Return whether a page has lines of Python that are not run elsewhere."""
    return bool(blocks(page, "python")) and named(page) not in NOT_RUN | FOLLOWED


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if has_python(page)], ids=named)
def test_python_runs(page, tmp_path, monkeypatch):
    """The lines of Python of a page run, in their order, beside records of made-up buses."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(bus_records(), "records.parquet")
    names = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for code in blocks(page, "python"):
            exec(compile(code, named(page), "exec"), names)  # noqa: S102  our own page
    assert names.keys() - {"__builtins__"}, "the page's lines give nothing a name"


def test_pages_that_are_left_out_are_there():
    """A page whose Python is not run here is there, and the test that runs it names it."""
    tests = dict.fromkeys(NOT_RUN, "tests/test_docs.py") | FOLLOWED
    assert [page for page in tests if not (ROOT / page).is_file()] == []
    texts = {page: (ROOT / test).read_text(encoding="utf-8") for page, test in tests.items()}
    assert [page for page, text in texts.items() if Path(page).name not in text] == []


def said_commands(page):
    """Return the command lines that a page shows: in blocks of shell, and in its sentences."""
    text = page.read_text(encoding="utf-8")
    shown = "\n".join(blocks(page, "sh")).replace("\\\n", " ")
    lines = re.findall(r"(?:^|&& |bin/)(hexveil .*)", shown, flags=re.MULTILINE)
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return lines + re.findall(r"`(hexveil [^`]+)`", outside)


@cache
def said(*line):
    """Return what the command says; nothing where it is misused."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(io.StringIO()):
        code = main(line)
    return "" if code else text.getvalue()


def unknown(line):
    """Return what of a command line the command does not know: a sub-command, or an option."""
    words = shlex.split(re.split(r"[|<>&;]|\s#", line.replace("$(", "("))[0].replace("'", '"'))[1:]
    command = []
    while words and "[COMMAND]" in said(*command, "--help") and not words[0].startswith("-"):
        command.append(words.pop(0))
        if not said(*command, "--help"):
            return [] if command[-1] in ("...", "COMMAND") else command[-1:]
    names = set(re.findall(r"--[\w-]+", said(*command, "--help")))
    return [w for w in words if w.startswith("--") and w.split("=")[0] not in names]


@pytest.mark.slow
def test_commands_exist():
    """Every `hexveil` line of a page names a command and options that there are."""
    lines = [(named(page), line) for page in PAGES for line in said_commands(page)]
    assert [(*line, wrong) for line in lines if (wrong := unknown(line[1]))] == []


def flight_records():
    """Return made-up records of 1,000 planes, in the columns that a job in code names."""
    number = np.arange(6_000)
    columns = {
        "tailnum": [f"N{k}" for k in number % 1_000],
        "ground speed": 300.0 + number % 90,
        "origin": np.where(number % 2, "JFK", "LGA"),
        "hour": number % 3,
    }
    return pa.table(columns)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "dataset", "lines"),
    [("README.md", "buses", 99), ("docs/understand/other-libraries.md", "flights", 10)],
)
def test_a_job_in_code_runs(tmp_path, monkeypatch, page, dataset, lines):
    """The lines of Python run as they are pasted, and make a map that verifies."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(flight_records(), "flights.parquet")
    (code,) = blocks(ROOT / page, "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= lines
    exec(compile(code, page, "exec"), {})  # noqa: S102  our own page
    assert hv.verify("map")["dataset"]["name"] == dataset
    assert Path("map", "report.html").is_file()
