"""Bad input: one clear sentence on stderr, exit 2, nothing written, nothing spent."""

import re
import sqlite3
from contextlib import closing

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hexveil as hv


def put(here, **columns):
    """Replace columns of the records."""
    table = pq.read_table(here / "buses.parquet")
    for name, values in columns.items():
        place = table.column_names.index(name)
        column = values(table[name]) if callable(values) else pa.array(values)
        table = table.set_column(place, name, column)
    pq.write_table(table, here / "buses.parquet")


def first(column, share, value):
    """Return the column with its first rows replaced."""
    size = int(len(column) * share)
    return pa.array([value] * size + column.to_pylist()[size:], type=column.type)


def missing_file(here):
    (here / "buses.parquet").unlink()


def empty_file(here):
    (here / "buses.parquet").write_bytes(b"")


def truncated(here):
    whole = (here / "buses.parquet").read_bytes()
    (here / "buses.parquet").write_bytes(whole[: len(whole) // 2])


def empty_csv(here):
    (here / "empty.csv").write_text("")


def no_rows(here):
    pq.write_table(pq.read_table(here / "buses.parquet").slice(0, 0), here / "buses.parquet")


def swapped(here):
    table = pq.read_table(here / "buses.parquet")
    names = ["bus", "lon", "lat", "time", "speed"]
    pq.write_table(table.rename_columns(names), here / "buses.parquet")


def swapped_out_of_range(here):
    """West of 90 degrees a swapped longitude is no latitude at all."""
    put(here, lat=lambda c: pc.subtract(c, 140), lon=lambda c: pc.subtract(c, 30))


def no_value(here):
    put(here, speed=lambda c: pa.array([float("nan")] * len(c)))


def no_value_text(here):
    put(here, speed=lambda c: pa.array(["secret-a"] * len(c)))


def early(here):
    put(here, time=lambda c: pa.array(["1969-12-31T10:00:00Z"] * len(c)))


def late(here):
    put(here, time=lambda c: pa.array(["2101-01-01T10:00:00Z"] * len(c)))


def unreadable_times(here):
    put(here, time=lambda c: first(c, 0.2, "secret-b"))


def unreadable_values(here):
    put(here, speed=lambda c: first(pc.cast(c, pa.string()), 0.2, "secret-c"))


def nothing(here):
    """Leave the records alone."""


ADAPTIVE = ("--set", "plan.clipping_range=per-cell", "--epsilon", "1")

CASES = {
    "missing file": (missing_file, (), r"buses\.parquet"),
    "no file matches": (nothing, ("--set", "source=none-*.parquet"), r"none-\*\.parquet"),
    "empty file": (empty_file, (), r"buses\.parquet.* empty"),
    "empty csv": (empty_csv, ("--set", "source=empty.csv"), r"empty\.csv"),
    "no rows": (no_rows, (), "no "),
    "truncated parquet": (truncated, (), r"buses\.parquet.*(truncated|cut|damaged|Parquet)"),
    "misspelt user": (nothing, ("--user", "bsu"), "user.*'bsu'.*did you mean 'bus'"),
    "misspelt value": (nothing, ("--value", "sped"), "value.*'sped'.*did you mean 'speed'"),
    "misspelt lat": (nothing, ("--lat", "latt"), "lat.*'latt'.*did you mean 'lat'"),
    "misspelt time": (nothing, ("--time", "tme"), "time.*'tme'.*did you mean 'time'"),
    "misspelt label": (nothing, ("--set", "cells.labels=buss"), "labels and resolution"),
    "bounds reversed": (nothing, ("--bounds", "65,0"), "bounds must run from the smaller"),
    "bounds equal": (nothing, ("--bounds", "5,5"), "bounds must run from the smaller"),
    "bounds infinite": (nothing, ("--bounds", "0,inf"), "upper bound.* must be a finite number"),
    "bounds nan": (nothing, ("--bounds", "nan,1"), "lower bound.* must be a finite number"),
    "bounds single": (nothing, ("--bounds", "5"), "bounds must be a pair"),
    "bounds off the quantum": (
        nothing,
        ("--set", "values.quantum=2"),
        "65 is not a multiple of the quantum",
    ),
    "quantum zero": (nothing, ("--set", "values.quantum=0"), "quantum must be positive"),
    "epsilon zero": (nothing, ("--epsilon", "0"), "epsilon must be positive and finite, got 0"),
    "epsilon negative": (nothing, ("--epsilon", "-1"), "epsilon must be positive .*got -1"),
    "epsilon nan": (nothing, ("--epsilon", "nan"), "epsilon must be a finite number"),
    "epsilon inf": (nothing, ("--epsilon", "inf"), "epsilon must be a finite number"),
    "epsilon text": (nothing, ("--epsilon", "one"), "epsilon must be a finite number"),
    "unknown timezone": (
        nothing,
        ("--timeslot", "1h", "--timezone", "Asia/Calcuta"),
        "timezone 'Asia/Calcuta' is not known; did you mean 'Asia/Calcutta'",
    ),
    "no timezone": (nothing, ("--timeslot", "1h"), "timezone is needed"),
    "timeslot": (nothing, ("--timeslot", "7h", "--timezone", "UTC"), "timeslot must run"),
    "resolution 16": (nothing, ("--resolution", "16"), "resolution must be from 0 to 15, got 16"),
    "resolution -1": (nothing, ("--resolution", "-1"), "resolution must be from 0 to 15, got -1"),
    "resolution text": (nothing, ("--resolution", "five"), "resolution must be a whole number"),
    "out of the box": (nothing, ("--set", "select.box=50,10,51,11"), "box"),
    "swapped": (swapped, ("--timezone", "Asia/Kolkata"), "swapped"),
    "swapped, no latitude": (swapped_out_of_range, (), "swapped"),
    "no cell left": (nothing, ("--set", "select.min_users=1000"), "no cell.*min_users"),
    "no hour left": (nothing, ("--set", "select.hours=3", "--timezone", "Asia/Kolkata"), "no "),
    "no usable value": (no_value, (), "no .*value"),
    "values that are text": (no_value_text, (), "value"),
    "before 1970": (early, (), "1970"),
    "after 2100": (late, (), "2100"),
    "bad times": (unreadable_times, (), "max_bad_rows"),
    "bad values": (unreadable_values, (), "max_bad_rows"),
    "folder below a file": (nothing, ("--out", "run.toml/map"), r"run\.toml/map"),
    "folder that exists": (nothing, ("--out", "."), "exist"),
    "folder in /proc": (nothing, ("--out", "/proc/map"), "/proc/map"),
    "unknown mechanism": (
        nothing,
        ("--set", "plan.mechanism=Levi"),
        "there is no 'Levi'; available: Baseline",
    ),
    "target beside epsilon": (
        nothing,
        ("--epsilon", "1", "--set", "plan.target_error=2"),
        "epsilon and target_error cannot be combined",
    ),
    "target of zero": (nothing, ("--set", "plan.target_error=0"), "target_error must be positive"),
    "target of a cell": (
        nothing,
        ("--set", "plan.target_error=north=2"),
        "must be for mean, variance, sum",
    ),
    "target twice": (
        nothing,
        ("--set", "plan.target_error=mean=1", "--set", "plan.target_error=mean=2"),
        "two targets for mean",
    ),
    "target of one of two": (
        nothing,
        ("--set", "plan.target_error=mean=1", "--set", "plan.statistics=mean,sd"),
        "must name mean and variance",
    ),
    "unknown objective": (
        nothing,
        ("--set", "plan.objective=least"),
        "objective must be one of max, mean",
    ),
    "unknown error": (nothing, ("--set", "plan.error=both"), "error must be one of separate, sum"),
    "split of one": (
        nothing,
        ("--set", "plan.split=1"),
        "split is the mean's part.*between 0 and 1",
    ),
    "mechanism of the joint plan": (
        nothing,
        ("--set", "plan.mechanism=Baseline"),
        "goes with method",
    ),
    "no such plan": (nothing, ("--from-plan", "none"), "none is not a folder"),
    "unknown method": (nothing, ("--set", "plan.method=magic"), "method must be one of"),
    "unknown unit": (nothing, ("--set", "read.privacy_unit=person"), "unit"),
    "unknown repeats": (nothing, ("--set", "read.repeats=maybe"), "repeats"),
    "no context": (nothing, ("--set", "release.context=roads.geojson"), "context.*roads.geojson"),
    "context that is not GeoJSON": (
        nothing,
        ("--set", "release.context=run.toml"),
        "context.*run.toml",
    ),
    "budget zero": (nothing, ("--set", "ledger.budget=0"), "budget must be positive"),
    "budget nan": (nothing, ("--set", "ledger.budget=nan"), "budget must be a finite number"),
    "ledger that is none": (nothing, ("--ledger", "run.toml"), "run.toml"),
    "ledger in no folder": (nothing, ("--ledger", "none/book.sqlite"), "none"),
    "unknown statistic": (nothing, ("--set", "plan.statistics=median"), "statistics must be"),
    "baseline error zero": (
        nothing,
        ("--set", "plan.baseline_error=0"),
        "baseline_error must be positive",
    ),
    "baseline error negative": (
        nothing,
        ("--set", "plan.baseline_error=-1"),
        "baseline_error must be positive and finite, got -1",
    ),
    "baseline error nan": (
        nothing,
        ("--set", "plan.baseline_error=nan"),
        "baseline_error must be a finite number",
    ),
    "baseline error inf": (
        nothing,
        ("--set", "plan.baseline_error=inf"),
        "baseline_error must be a finite number",
    ),
    "baseline error beyond the bounds": (
        nothing,
        ("--set", "plan.baseline_error=32.6"),
        r"baseline_error must be at most 32\.5, half the width of the bounds, got 32\.6",
    ),
    "unknown clipping range": (
        nothing,
        ("--set", "plan.clipping_range=some"),
        "clipping_range must be one of bounds, private, per-cell",
    ),
    "share without an interval": (
        nothing,
        ("--set", "plan.clipping_range=bounds", "--set", "plan.range_share=0.1"),
        "range_share .*goes with",
    ),
    "share of nothing": (
        nothing,
        (*ADAPTIVE, "--set", "plan.range_share=0"),
        "between 0 and 1, got 0",
    ),
    "share of all": (nothing, (*ADAPTIVE, "--set", "plan.range_share=1"), "between 0 and 1, got 1"),
    "share below nothing": (
        nothing,
        (*ADAPTIVE, "--set", "plan.range_share=-0.1"),
        "between 0 and 1",
    ),
    "steps for a variance": (
        nothing,
        (*ADAPTIVE, "--set", "plan.statistics=mean,variance"),
        '"per-cell" goes with the mean alone',
    ),
    "steps for a deviation": (
        nothing,
        (*ADAPTIVE, "--set", "plan.statistics=sd"),
        '"per-cell" goes with the mean alone',
    ),
    "steps with targets": (
        nothing,
        (*ADAPTIVE[:2], "--set", "plan.target_error=2"),
        '"per-cell" goes with epsilon, not target_error|"per-cell" goes with objective',
    ),
    **{
        f"steps by {method}": (
            nothing,
            (*ADAPTIVE, "--set", f"plan.method={method}"),
            '"per-cell" goes with method "joint", not',
        )
        for method in ("per-cell", "equal-split", "clip-user")
    },
    "steps for the worst cell": (
        nothing,
        (*ADAPTIVE, "--set", "plan.objective=max"),
        '"per-cell" goes with objective "mean"',
    ),
    "split of one mean": (
        nothing,
        (*ADAPTIVE, "--set", "plan.split=0.5"),
        "split .*goes with a method .* private interval",
    ),
    "unknown option": (nothing, ("--speed", "5"), "No such option"),
    "too fine": (nothing, ("--epsilon", "0.01"), "nothing was spent: this grid is too fine"),
}


def listing(folder):
    """Return every file below a folder with its bytes."""
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_sentence_and_spends_nothing(here, call, case):
    """Each mistake ends with exit 2 and one sentence; no file appears or changes."""
    spoil, options, sentence = CASES[case]
    spoil(here)
    before = listing(here)
    said = call("release", "run.toml", *options)
    assert said.code == 2, said.err
    assert said.out == ""
    assert said.err.startswith("hexveil: ")
    assert said.err.count("\n") == 1
    assert said.err.rstrip().endswith((".", "?")), said.err
    assert listing(here) == before
    assert "secret" not in said.err
    assert re.search(sentence, said.err), said.err


@pytest.mark.slow
@pytest.mark.parametrize("command", ["plan", "publish"])
@pytest.mark.parametrize("case", [name for name in CASES if re.match("prior|share|steps", name)])
def test_the_same_is_said_by_plan_and_publish(here, call, case, command):
    """A run file with the mistake in it ends the same way in the other commands that plan."""
    spoil, options, sentence = CASES[case]
    spoil(here)
    clock = ("--timezone", "Asia/Kolkata")
    dated = (
        ("--date", "2022-01-01", "--set", "release.accept_noise=true", *clock)
        if command == "publish"
        else ()
    )
    before = listing(here)
    said = call(command, "run.toml", *options, *dated)
    assert said.code == 2, said.err
    assert re.search(sentence, " ".join((said.err + said.out).split())), said
    assert {path: data for path, data in listing(here).items() if path in before} == before
    assert not (here / "map").exists()


def test_an_unknown_estimate_spends_nothing(here, call):
    """What only the release itself can judge is refused before the booking."""
    said = call("release", "run.toml", "--set", "release.estimates=rough")
    assert said.code == 2
    assert "estimates" in said.err
    assert hv.Ledger("ledger.sqlite", dataset="buses", budget=2).spent == 0
    assert not (here / "map").exists()


def test_smoothing_one_cell_spends_nothing(here, call):
    """A map of one cell has nothing to borrow from: one sentence, nothing booked or written."""
    said = call(
        "release", "run.toml", "--resolution", "3", "--set", "release.estimates=raw,smoothed"
    )
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert "smoothed needs more than one cell to borrow from" in said.err
    assert hv.Ledger("ledger.sqlite", dataset="buses", budget=2).spent == 0
    assert not (here / "map").exists()


@pytest.mark.slow
def test_a_ledger_that_exists_is_not_touched(here, call):
    """Bad input leaves what was booked before as it was."""
    assert call("release", "run.toml").code == 0
    before = (here / "ledger.sqlite").read_bytes()
    assert call("release", "run.toml", "--out", "two", "--epsilon", "nan").code == 2
    assert call("release", "run.toml", "--out", "two", "--set", "select.min_users=9999").code == 2
    assert call("release", "run.toml", "--out", "run.toml/x", "--epsilon", "0.9").code == 2
    assert (here / "ledger.sqlite").read_bytes() == before
    with closing(sqlite3.connect(here / "ledger.sqlite")) as book:
        assert book.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("command", ["inspect", "plan"])
def test_a_column_of_single_records_is_refused_or_confirmed(tmp_path, monkeypatch, call, command):
    """Where each id has one record, an option says that it is meant so."""
    monkeypatch.chdir(tmp_path)
    lines = [f"row-{i},{i % 60},x" for i in range(40)]
    (tmp_path / "r.csv").write_text("\n".join(["row,speed,ward", *lines]))
    asked = (command, "r.csv", "--user", "row", "--value", "speed", "--bounds", "0,65",
             "--set", "cells.labels=ward", "--epsilon", "1")  # fmt: skip
    refused = call(*asked)
    assert refused.code == 2
    assert "40 of 40 ids in the column 'row' have a single record" in refused.err
    assert call(*asked, "--set", "read.accept_single_records=true").code == 0
