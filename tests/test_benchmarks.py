"""What benchmarks measure in common: lines of JSON, growth, the table, committed figures."""

import argparse
import importlib
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "benchmarks"


@pytest.fixture(scope="module")
def load():
    """Return what imports a script of benchmarks/ by its name; nothing stays imported."""
    before, path = set(sys.modules), list(sys.path)
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module
    sys.path[:] = path
    names = {file.stem for file in FOLDER.glob("*.py")}
    for name in (set(sys.modules) - before) & names:
        del sys.modules[name]


@pytest.fixture
def measuring(load):
    """Return the module that all benchmarks share."""
    return load("measuring")


def made(measuring, rows=100, cpu=3.0, part="keep", **more):
    """Return a measurement beside a floor of two CPU seconds."""
    return measuring.Measured("reading", f"csv {part}", {"rows": rows}, cpu, 2.0, **more)


def several(measuring, seconds, **more):
    """Return one series of these CPU seconds at sizes that grow tenfold from 100."""
    points = [made(measuring, 100 * 10**k, cpu, **more) for k, cpu in enumerate(seconds)]
    (found,) = measuring.series(("rows", one) for one in reversed(points))
    return found


def test_limits_that_are_missed_are_named(measuring):
    """A ratio, seconds, memory or an error above its limit is named; one at its limit is not."""
    one = made(measuring, peak=5, error=1.0, limits={"ratio": 1.5, "cpu": 2.9, "peak": 4})
    assert one.ratio == 1.5
    assert one.missed() == ["cpu", "peak"]
    assert replace(one, limits={"error": 0.9}).missed() == ["error"]


@pytest.mark.parametrize(
    ("seconds", "mark"), [(2.0, ""), (2.59, ""), (2.61, "worse by 30%"), (4, "worse by 100%")]
)
def test_only_ratios_over_thirty_percent_worse_are_marked(measuring, seconds, mark):
    """The ratio at the largest size is compared with the committed one, and marked above 1.3."""
    before = several(measuring, [1.0, 2.0])
    text = measuring.table([several(measuring, [9.0, seconds])], [before])
    assert text.splitlines()[-1].endswith(f"| 1 | {mark} |")


def test_table_has_ratios_exponents_and_limits(measuring):
    """A row says sizes, ratios, how time and memory grow, and which limit is missed."""
    limits = {"ratio": 5.0, "peak": 2**29}
    one = several(measuring, [2.0, 20.0], peak=2**30, error=0.25, limits=limits)
    head, rule, row = measuring.table([one]).splitlines()
    assert head.count("|") == rule.count("|") == row.count("|")
    assert "missed" not in measuring.table([one], judged=False)
    assert row == (
        "| reading: csv keep | 100 / 1 k rows | 1 / 10 | 1.00 | 0.00 | 20 | 1,024 | 0.25 "
        "| 5 **missed**, 0.5 GiB **missed** |"
    )


def test_committed_figures_come_back(measuring, tmp_path):
    """Figures that are written are read again, to four digits; the machine has no name."""
    file, found = tmp_path / "figures.json", several(measuring, [1.23456, 20.0], peak=7)
    assert measuring.committed(file) == []
    about = measuring.machine() | {"quick": True}
    measuring.commit(file, [found], about)
    (back,) = measuring.committed(file)
    assert [point.cpu for point in back.points] == [1.235, 20.0]
    assert (back.name, back.sizes, back.last.peak) == (found.name, found.sizes, 7)
    assert set(about) == {"cores", "memory_gib", "system", "versions", "quick"}
    assert set(about["versions"]) == {"python", "duckdb", "numpy", "pyarrow"}


def test_every_script_runs_at_three_sizes(load):
    """Each job's sizes grow; those along users or cells differ in that alone."""
    limits = load("limits")
    for quick in (False, True):
        found = limits.jobs(quick=quick, times=None)
        kinds = {(job.script, *job.options[:3]) for job in found if job.script == "reading"}
        assert len(kinds) == 2
        for script, *options in (*kinds, ("end_to_end",), ("scale",), ("incremental",)):
            mine = [job for job in found if job.script == script]
            mine = [job for job in mine if not options or list(job.options[:3]) == options]
            for along in {name for job in mine for name in job.along}:
                at = [job.sizes for job in mine if along in job.along]
                assert len({one[along] for one in at}) == len(at) == 3
                if along in ("users", "cells"):
                    assert len({tuple(n for k, n in one.items() if k != along) for one in at}) == 1
        # Each set must hold its pairs, and most of its places stay free.
        pairs = [job.sizes for job in found if "pairs" in job.sizes]
        assert all(one["pairs"] <= 0.4 * one["users"] * one["cells"] for one in pairs)


def test_page_is_written_between_its_marks(load, measuring):
    """The table of docs/understand/limits.md comes from measurements; the text around it stays."""
    limits = load("limits")
    page = limits.PAGE.read_text("utf-8")
    about = measuring.machine() | {"quick": True}
    found = [several(measuring, [2.0, 4.0], limits={"ratio": 9.0})]
    text = limits.written(page, found, about)
    assert "reading: csv keep" in text
    assert "a tenth" in text
    assert limits.written(text, found, about) == text
    around = re.compile(f"{limits.BEGIN}.*{limits.END}", re.DOTALL)
    assert around.sub("", text) == around.sub("", page)


@pytest.fixture
def limits(load, measuring, tmp_path, monkeypatch):
    """Return limits.py with files of its own, and measurements in place of runs."""
    module = load("limits")
    page = tmp_path / "limits.md"
    page.write_text(f"above\n{module.BEGIN}\n{module.END}\nbelow\n", encoding="utf-8")
    monkeypatch.setattr(module, "PAGE", page)
    monkeypatch.setattr(module, "FIGURES", tmp_path / "figures.json")

    def run(seconds, *options, failed=0, limit=9.0):
        found = several(measuring, [1.0, seconds], peak=2**20, limits={"ratio": limit})
        monkeypatch.setattr(module, "together", lambda *_: ([found], failed))
        monkeypatch.setattr(sys, "argv", ["limits.py", "--out", str(tmp_path / "out"), *options])
        return module.main()

    return argparse.Namespace(run=run, files=tmp_path)


def test_committed_ratios_are_compared_with_and_fail_nothing(limits, capsys):
    """Figures are committed with the page; a later run that is worse says so, exit 0."""
    assert limits.run(2.0, "--commit-figures") == 0
    assert "reading: csv keep" in (limits.files / "limits.md").read_text("utf-8")
    assert "worse" not in capsys.readouterr().out
    assert limits.run(3.0) == 0
    assert "| 1 | worse by 50% |" in capsys.readouterr().out
