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


SPOILT = {
    missing_file: r"buses\.parquet",
    empty_file: r"buses\.parquet.* empty",
    no_rows: "no ",
    truncated: r"buses\.parquet.*(truncated|cut|damaged|Parquet)",
    swapped: "swapped",
    swapped_out_of_range: "swapped",
    no_value: "no .*value",
    no_value_text: "value",
    early: "1970",
    late: "2100",
    unreadable_times: "max_bad_rows",
    unreadable_values: "max_bad_rows",
}
OPTIONS = r"""
source=none-*.parquet | none-\*\.parquet
--user bsu | user.*'bsu'.*did you mean 'bus'
--value sped | value.*'sped'.*did you mean 'speed'
cells.labels=buss | labels and resolution
--bounds 65,0 | bounds must run from the smaller
--bounds 0,inf | upper bound.* must be a finite number
--bounds 5 | bounds must be a pair
values.quantum=2 | 65 is not a multiple of the quantum
--epsilon 0 | epsilon must be positive and finite, got 0
--epsilon one | epsilon must be a finite number
--timeslot 1h --timezone Asia/Calcuta | 'Asia/Calcuta' is not known; did you mean 'Asia/Calcutta'
--timeslot 1h | timezone is needed
--timeslot 7h --timezone UTC | timeslot must run
--resolution 16 | resolution must be from 0 to 15, got 16
select.box=50,10,51,11 | box
select.min_users=1000 | no cell.*min_users
--out run.toml/map | run\.toml/map
--out . | exist
plan.mechanism=Levi | there is no 'Levi'; available: Baseline
--epsilon 1 plan.target_error=2 | epsilon and target_error cannot be combined
plan.target_error=north=2 | must be for mean, variance
plan.target_error=mean=1 plan.statistics=mean,sd | must name mean and variance
plan.split=0.5 | split \(in \[plan\]\) goes with a method that plans cells apart
--from-plan none | none is not a folder
plan.method=magic | method must be one of
read.privacy_unit=person | unit
release.context=roads.geojson | context.*roads.geojson
ledger.budget=0 | budget must be positive
--ledger run.toml | run.toml
plan.statistics=median | statistics must be one or more of mean, variance, sd
plan.baseline_error=0 | baseline_error must be positive
plan.baseline_error=32.6 | must be at most 32\.5, half the width of the bounds, got 32\.6
plan.clipping_range=bounds plan.range_share=0.1 | range_share .*goes with
plan.clipping_range=per-cell plan.statistics=mean,variance | "per-cell" goes with the mean alone
plan.clipping_range=per-cell plan.target_error=2 | "per-cell" goes with (epsilon|objective)
plan.clipping_range=per-cell plan.method=per-cell | "per-cell" goes with method "joint", not
plan.clipping_range=per-cell plan.objective=max | "per-cell" goes with objective "mean"
--speed 5 | No such option
--epsilon 0.01 | nothing was spent: this grid is too fine
"""
ROWS = [row.split(" | ") for row in OPTIONS.strip().splitlines()]


def typed(options):
    """Return options as they are typed: fields have --set before them."""
    return re.sub(r"(^| )(?=[a-z.]+[._a-z]*=)", r"\1--set ", options)


def listing(folder):
    """Return every file below a folder with its bytes."""
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def refused(here, said, before, sentence):
    """Fail unless a command ended in exit 2 and one sentence, and no file appeared or changed."""
    assert said.code == 2, said.err
    assert said.out == ""
    assert said.err.startswith("hexveil: ")
    assert said.err.count("\n") == 1
    assert said.err.rstrip().endswith((".", "?")), said.err
    assert listing(here) == before
    assert "secret" not in said.err
    assert re.search(sentence, said.err), said.err


@pytest.mark.slow
@pytest.mark.parametrize("spoil", SPOILT)
def test_bad_records_are_one_sentence_and_spend_nothing(here, call, spoil):
    """Whatever is wrong with the records."""
    spoil(here)
    before = listing(here)
    clock = "--timezone Asia/Kolkata" if spoil is swapped else ()
    refused(here, call("release run.toml", clock), before, SPOILT[spoil])


@pytest.mark.slow
@pytest.mark.parametrize(("options", "sentence"), ROWS)
def test_bad_input_is_one_sentence_and_spends_nothing(here, call, options, sentence):
    """Whatever is wrong with what is asked."""
    (here / "empty.csv").write_text("")
    before = listing(here)
    refused(here, call("release run.toml", typed(options)), before, sentence)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("release.estimates=rough", "estimates"),
        ("--resolution 3 release.estimates=raw,smoothed", "smoothed needs more than one cell"),
    ],
)
def test_what_the_release_alone_can_judge_spends_nothing(here, refuse, options, sentence):
    """It is refused before the booking, although the ledger has been opened."""
    said = refuse("release run.toml", typed(options))
    assert said.err.count("\n") == 1
    assert sentence in said.err
    assert hv.Ledger("ledger.sqlite", dataset="buses", budget=2).spent == 0
    assert not (here / "map").exists()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["plan", "publish"])
@pytest.mark.parametrize(("options", "sentence"), [row for row in ROWS if "per-cell" in row[0]])
def test_the_same_is_said_by_plan_and_publish(here, refuse, options, sentence, command):
    """A run file with the mistake in it ends the same way in the other commands that plan."""
    dated = "--date 2022-01-01 --timezone Asia/Kolkata --set release.accept_noise=true"
    before = listing(here)
    said = refuse(command, "run.toml", typed(options), dated if command == "publish" else ())
    assert re.search(sentence, " ".join((said.err + said.out).split())), said
    assert {path: data for path, data in listing(here).items() if path in before} == before
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
def test_a_column_of_single_records_is_refused_or_confirmed(
    tmp_path, monkeypatch, call, refuse, command
):
    """Where each id has one record, an option says that it is meant so."""
    monkeypatch.chdir(tmp_path)
    lines = [f"row-{i},{i % 60},x" for i in range(40)]
    (tmp_path / "r.csv").write_text("\n".join(["row,speed,ward", *lines]))
    asked = (command, "r.csv --user row --value speed --bounds 0,65 --set cells.labels=ward")
    refused = refuse(asked, "--epsilon 1")
    assert "40 of 40 ids in the column 'row' have a single record" in refused.err
    assert call(asked, "--epsilon 1 --set read.accept_single_records=true").code == 0
