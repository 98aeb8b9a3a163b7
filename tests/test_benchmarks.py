"""What benchmarks measure in common: lines of JSON, growth, the table, committed figures."""

import argparse
import importlib
import re
import subprocess
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


@pytest.mark.parametrize("power", [0.5, 1.0, 1.5])
def test_exponents_are_those_of_powers(measuring, power):
    """A power of the size gives its exponent, whatever the factor."""
    sizes = [10, 50, 1000]
    found = measuring.exponent(sizes, [7.0 * size**power for size in sizes])
    assert found == pytest.approx(power)


def test_exponents_are_fitted_by_least_squares(measuring):
    """With three sizes at equal steps the one in the middle has no say in the slope."""
    found = [measuring.exponent([1, 10, 100], [1.0, middle, 10.0]) for middle in (0.1, 50.0)]
    assert found == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize(
    ("sizes", "values"),
    [([5], [1.0]), ([5, 5], [1.0, 2.0]), ([1, 2], [1.0, None]), ([1, 2], [0, 1])],
)
def test_exponents_need_two_sizes_and_all_values(measuring, sizes, values):
    """One size, or a value that is missing or zero, has no exponent."""
    assert measuring.exponent(sizes, values) is None


def test_lines_of_json_come_back(measuring, tmp_path):
    """What scripts add to a file is what is read from it, in order; without a file nothing is."""
    first = made(measuring, peak=5, limits={"ratio": 2.0, "peak": 4})
    second = made(measuring, part="drop", error=0.5)
    measuring.save(None, [first])
    for one in (first, second):
        measuring.save(tmp_path / "found.jsonl", [one])
    assert measuring.load(tmp_path / "found.jsonl") == [first, second]


def test_scripts_have_one_option(measuring):
    """The option that scripts share is a path, and none if it is not asked for."""
    parser = argparse.ArgumentParser()
    measuring.add_json(parser)
    assert parser.parse_args([]).json is None
    assert parser.parse_args(["--json", "a"]).json == Path("a")


def test_limits_that_are_missed_are_named(measuring):
    """A ratio, seconds, memory or an error above its limit is named; one at its limit is not."""
    one = made(measuring, peak=5, error=1.0, limits={"ratio": 1.5, "cpu": 2.9, "peak": 4})
    assert one.ratio == 1.5
    assert one.missed() == ["cpu", "peak"]
    assert replace(one, limits={"error": 0.9}).missed() == ["error"]


def test_what_is_told_says_what_is_missed(measuring, tmp_path, capsys):
    """The exit code is 1 if a limit is missed, which is said; the measurements are saved."""
    kept, missed = (made(measuring, limits={"ratio": most}) for most in (1.5, 1.4))
    assert [measuring.told([one], tmp_path / "found.jsonl") for one in (kept, missed)] == [0, 1]
    assert [line.endswith("MISSED") for line in capsys.readouterr().out.splitlines()] == [
        False,
        True,
    ]
    assert measuring.load(tmp_path / "found.jsonl") == [kept, missed]


def test_a_task_in_a_process_of_its_own_says_what_it_took(measuring, tmp_path):
    """CPU seconds and memory are those of the process that ran the task, and not of this one."""
    script = tmp_path / "task.py"
    script.write_text(
        "import sys; sys.path.insert(0, sys.argv[1]); import measuring\n"
        "measuring.report(measuring.since(measuring.cpu()) | {'rows': 5})\n"
    )
    found = measuring.in_process("a task", str(script), FOLDER)
    assert (found["rows"], found["cpu"] < 1.0, found["peak"] > 2**20) == (5, True, True)


@pytest.mark.parametrize("what", ["error", "peak", "watts"])
def test_a_limit_needs_a_measurement(measuring, what):
    """A limit of what was not measured would never be missed: it is refused."""
    with pytest.raises(ValueError, match=what):
        made(measuring, limits={what: 1.0})


def test_series_are_in_order_of_size(measuring):
    """Measurements of one part come together, from the smallest size on; parts stay apart."""
    one = several(measuring, [1.0, 12.0])
    assert (one.name, one.sizes) == (("reading", "csv keep", "rows"), [100, 1000])
    assert one.last.cpu == 12.0
    assert one.exponent("cpu") == pytest.approx(1.079, abs=0.001)
    assert one.exponent("peak") is None
    found = [("rows", made(measuring)), ("rows", made(measuring, part="drop"))]
    assert [one.part for one in measuring.series(found)] == ["csv keep", "csv drop"]


@pytest.mark.parametrize(
    ("seconds", "mark"), [(2.0, ""), (2.59, ""), (2.61, "worse by 30%"), (4, "worse by 100%")]
)
def test_only_ratios_over_thirty_percent_worse_are_marked(measuring, seconds, mark):
    """The ratio at the largest size is compared with the committed one, and marked above 1.3."""
    before = several(measuring, [1.0, 2.0])
    text = measuring.table([several(measuring, [9.0, seconds])], [before])
    assert text.splitlines()[-1].endswith(f"| 1 | {mark} |")


def test_other_sizes_are_not_compared(measuring):
    """A largest size that no committed figure is of has nothing to be compared with."""
    now = several(measuring, [1.0, 2.0, 90.0])
    assert measuring.worse(now, several(measuring, [1.0, 2.0])) is None
    assert measuring.worse(now, None) is None
    other = replace(now.last, sizes={"rows": 10_000, "days": 2})
    assert measuring.worse(now, replace(now, points=(other,))) is None
    assert measuring.worse(now, replace(now, points=(replace(other, sizes=now.last.sizes),))) == 0
    assert measuring.table([now], []).splitlines()[-1].endswith("|  |  |")


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


def test_largest_set_is_that_of_the_limits(load):
    """Limits of planning and release are for the largest set of scale.py, of reading for 50 M."""
    limits, scale = load("limits"), load("scale")
    assert limits.TOGETHER[-1] == scale.SIZES[-1]
    assert limits.ROWS["reading", *limits.PARQUET][-1] == 50_000_000
    assert set(limits.ALONE) < set(scale.PARTS)
    assert limits.FIXED in scale.PARTS


def test_parts_have_limits_at_the_size_they_are_for(load):
    """Planning and release have limits at ten million pairs; drawing, of one size, always."""
    scale = load("scale")
    for pairs, expected in ((10**6, {}), (10**7, {"ratio": 20.0})):
        sizes = {"users": 10, "cells": 5, "pairs": pairs}
        found = {"cpu": 1.0, "peak": 2.0}
        assert scale.line("release", sizes, 3.0, found).limits == expected
        assert scale.line("400,000 draws", sizes, 3.0, found).limits == {"cpu": 3.0}


def test_measurements_go_where_their_job_is(load, measuring):
    """A job takes its own script's lines of its own sizes, and few parts along users or cells."""
    limits = load("limits")
    sizes = {"users": 5, "cells": 3, "pairs": 10}
    job = limits.Job("scale", sizes, (), ("pairs", "users"))
    mine = measuring.Measured("scale", "release", sizes, 1.0, 1.0)
    others = [
        replace(mine, part="output"),
        replace(mine, benchmark="reading"),
        replace(mine, sizes=sizes | {"cells": 4}),
    ]
    found = list(job.placed([mine, *others]))
    assert found == [("pairs", mine), ("users", mine), ("pairs", others[0])]


def test_a_script_that_fails_is_told_from_one_that_misses(load, measuring, tmp_path, monkeypatch):
    """Exit code 1 with measurements is a missed limit; without any it is a failure, and is said."""
    limits = load("limits")
    monkeypatch.setattr(limits, "HERE", tmp_path)
    job = limits.Job("reading", {"rows": 100}, ("--kinds", "csv"), ("rows",))
    script = (
        "import sys; from pathlib import Path; Path(sys.argv[-1]).write_text({!r}); sys.exit(1)"
    )
    measuring.save(tmp_path / "one", [made(measuring)])
    (tmp_path / "reading.py").write_text(script.format((tmp_path / "one").read_text()))
    assert limits.run(job, 60) == [made(measuring)]
    (tmp_path / "reading.py").write_text("import sys; sys.exit(1)")
    assert limits.run(job, 60) == []


def test_what_is_there_is_not_measured_again(load, measuring, tmp_path, monkeypatch):
    """With --go-on only jobs without measurements run; without it all do, and the file is new."""
    limits = load("limits")
    asked = [limits.Job("reading", {"rows": 10**k}, ("--kinds", "csv"), ("rows",)) for k in (2, 3)]
    monkeypatch.setattr(limits, "jobs", lambda **_: asked)
    ran = []

    def run(job, _):
        ran.append(job)
        return [made(measuring, job.sizes["rows"])] if job is asked[0] else []

    monkeypatch.setattr(limits, "run", run)
    given = argparse.Namespace(go_on=True, quick=False, times=None, only=[], seconds=1)
    for again in (True, True, False):
        given.go_on = again
        (found,), failed = limits.together(given, tmp_path / "kept.jsonl")
        assert (found.sizes, failed) == ([100], 1)
    assert ran == [asked[0], asked[1], asked[1], asked[0], asked[1]]


def test_page_is_written_between_its_marks(load, measuring):
    """The table of docs/understand/limits.md comes from measurements; the text around it stays."""
    limits = load("limits")
    page = limits.PAGE.read_text("utf-8")
    about = measuring.machine() | {"quick": True}
    text = limits.written(page, [several(measuring, [2.0, 4.0])], about)
    assert "reading: csv keep" in text
    assert "a tenth" in text
    assert limits.written(text, [several(measuring, [2.0, 4.0])], about) == text
    around = re.compile(f"{limits.BEGIN}.*{limits.END}", re.DOTALL)
    assert around.sub("", text) == around.sub("", page)


def test_make_runs_each_script_once(load):
    """`make bench` runs limits.py, and then each script that limits.py does not run."""
    limits = load("limits")
    done = subprocess.run(
        ["make", "-C", ROOT, "-n", "bench"], capture_output=True, text=True, check=True
    )
    others = re.search(r"for script in (.*);", done.stdout)[1].split()
    inner = {job.script for job in limits.jobs(quick=False, times=None)}
    there = {f"benchmarks/{file.name}" for file in FOLDER.glob("*.py")}
    own = {f"benchmarks/{name}.py" for name in inner | {"limits", "measuring"}}
    assert set(others) == there - own
    assert "benchmarks/limits.py" in done.stdout


def test_error_of_a_release_is_that_of_its_map(load, tmp_path):
    """End to end, errors are means over cells of what is shown less the average of the records."""
    ending, big = load("end_to_end"), load("big")
    big.write(tmp_path / "big.parquet", rows=100)
    (part,) = big.parts(100)
    frame = part.group_by("cell").aggregate([("value", "mean")])
    true = dict(zip(*(frame[name].to_pylist() for name in ("cell", "value_mean")), strict=True))
    shown = {
        str(cell): mean + (2.0 if k % 2 else -1.0) for k, (cell, mean) in enumerate(true.items())
    }
    share = (len(shown) // 2) / len(shown)
    assert ending.error(tmp_path / "big.parquet", shown) == pytest.approx(1 + share)


def test_end_to_end_has_its_limits(load, measuring, monkeypatch):
    """The least seconds, the mean error of all runs; limits are those of the private interval."""
    ending = load("end_to_end")
    runs = iter(range(6))
    found = {"cpu": 2.0, "peak": 9.0, "error": 1.0}
    monkeypatch.setattr(
        ending, "measure", lambda *_: found | {"cpu": 2.0 + (k := next(runs)), "error": k}
    )
    plain, interval = ending.measured(ending.ROWS, Path("any"), 2)
    assert (plain.floor, plain.cpu, interval.cpu) == (2.0, 3.0, 4.0)
    assert (plain.error, interval.error) == (2.5, 3.5)
    assert plain.missed() == []
    assert interval.missed() == ["error"]
    assert interval.limits == {"cpu": 8.2, "error": 1.45}
    assert isinstance(interval, measuring.Measured)
    runs = iter(range(3))
    assert [one.limits for one in ending.measured(100, Path("any"), 1)] == [{}, {}]


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


def test_exit_code_is_that_of_limits_and_failures(limits):
    """A limit missed at the largest size or a failed script is 1; small sizes miss no limit."""
    assert limits.run(2.0, limit=0.9) == 1
    assert limits.run(2.0, "--quick", limit=0.9) == 0
    assert limits.run(2.0, failed=1) == 1
    assert limits.run(2.0, "--commit-figures", failed=1) == 1
    assert not (limits.files / "figures.json").exists()


def test_figures_of_some_scripts_are_not_committed(limits):
    """Committing needs all scripts, so that no figure of others is lost."""
    with pytest.raises(SystemExit, match="2"):
        limits.run(2.0, "--commit-figures", "--only", "reading")
