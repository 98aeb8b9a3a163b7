"""Bad input: one clear sentence on stderr, exit 2, nothing written, nothing spent."""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv


def column(name, value, share=1.0):
    """Return what puts a value into a column of the records, from the first row on."""

    def put(table):
        size = int(table.num_rows * share)
        kept = [type(value)(one) for one in table[name].to_pylist()[size:]]
        place = table.column_names.index(name)
        return table.set_column(place, name, pa.array([value] * size + kept))

    return put


def swapped(table):
    """Exchange latitudes and longitudes."""
    return table.rename_columns(["bus", "lon", "lat", "time", "speed"])


def half(content):
    """Return the first half of a file."""
    return content[: len(content) // 2]


FILES = {
    "missing": (None, r"buses\.parquet"),
    "empty": (lambda _: b"", r"buses\.parquet.* empty"),
    "truncated": (half, r"buses\.parquet.*(truncated|cut|damaged|Parquet)"),
}
TABLES = {
    "no rows": (lambda table: table.slice(0, 0), "no "),
    "swapped": (swapped, "swapped"),
    "no value": (column("speed", float("nan")), "no .*value"),
    "no value but text": (column("speed", "secret-a"), "value"),
    "early": (column("time", "1969-12-31T10:00:00Z"), "1970"),
    "late": (column("time", "2101-01-01T10:00:00Z"), "2100"),
    "unreadable times": (column("time", "secret-b", 0.2), "max_bad_rows"),
    "unreadable values": (column("speed", "secret-c", 0.2), "max_bad_rows"),
}
OPTIONS = r"""
source=none-*.parquet | none-\*\.parquet
--user bsu | user.*'bsu'.*did you mean 'bus'
--value sped | value.*'sped'.*did you mean 'speed'
--bounds 65,0 | bounds must run from the smaller
--bounds 5 | bounds must be a pair
values.quantum=2 | 65 is not a multiple of the quantum
--epsilon 0 | epsilon must be positive and finite, got 0
--timeslot 1h --timezone Asia/Calcuta | 'Asia/Calcuta' is not known; did you mean 'Asia/Calcutta'
--resolution 16 | resolution must be from 0 to 15, got 16
select.box=50,10,51,11 | box
select.min_users=1000 | no cell.*min_users
--out run.toml/map | run\.toml/map
--out . | exist
plan.mechanism=Levi | there is no 'Levi'; available: Baseline
--from-plan none | none is not a folder
read.privacy_unit=person | unit
release.context=roads.geojson | context.*roads.geojson
ledger.budget=0 | budget must be positive
--ledger run.toml | run.toml
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
@pytest.mark.parametrize("spoil", [*FILES, *TABLES])
def test_bad_records_are_one_sentence_and_spend_nothing(here, call, spoil):
    """Whatever is wrong with the records."""
    file = here / "buses.parquet"
    if spoil in TABLES:
        change, sentence = TABLES[spoil]
        pq.write_table(change(pq.read_table(file)), file)
    else:
        change, sentence = FILES[spoil]
        _ = file.write_bytes(change(file.read_bytes())) if change else file.unlink()
    before = listing(here)
    clock = "--timezone Asia/Kolkata" if spoil == "swapped" else ()
    refused(here, call("release run.toml", clock), before, sentence)


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
