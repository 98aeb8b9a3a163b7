"""Pairs of plain text without a table of records are those of the table, to the last id and sum."""

import gzip
import random
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pyarrow.csv as pc
import pytest

from hexveil.model.cells import Cells, Labels
from hexveil.records.duckdb import counting
from hexveil.records.duckdb.delimited import block_loading
from hexveil.records.duckdb.delimited.plain_blocks import NotPlainError
from hexveil.records.duckdb.packing import coded_records, packed_records
from hexveil.records.duckdb.packing.coded_records import pack_text
from hexveil.records.duckdb.packing.repeated_records import user_times
from hexveil.records.read import read
from hexveil.records.select import Select
from records.duckdb.test_packed_records import same, table
from records.duckdb.test_typed_columns import LONG, fuzzed_number, fuzzed_time
from records.test_read import WARSAW


@contextmanager
def coding(*, tables=False, plain=True, rows=500):
    """Code files of any size, in small blocks; yield the list of what coding returned."""
    found = []

    def kept(*given):
        found.append(None if tables else pack_text(*given))
        return found[-1]

    def refuse(*_):
        raise NotPlainError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coded_records, "MIN_BYTES", 1)
        patch.setattr(packed_records, "MIN_RECORDS", 1)
        patch.setattr(counting, "pack_text", kept)
        for name in ("SMALLEST_BLOCK", "LARGEST_BLOCK"):
            patch.setattr(block_loading, name, 9_000)
        patch.setattr(block_loading, "_ROWS_AT_ONCE", rows)
        if not plain:
            patch.setattr(block_loading, "plain_blocks", refuse)
        yield found


def dataset(path, grid=None, unit="user", **more):
    """Return the data set of a file."""
    options = {"max_bad_rows": 1, "max_repeats": 1, "lat": "lat", "lon": "lon", "time": "t", **more}
    return read(
        path, user="u", value="v", bounds=(0, 65), cells=grid or Cells(7, "1h", WARSAW),
        privacy_unit=unit, select=Select(min_users=1, **options.pop("select", {})), **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Return a file of records of which many repeat a user and time, in another place."""
    folder = tmp_path_factory.mktemp("text")
    records = table(3_000)
    rng = np.random.default_rng(8)
    again = records.take(rng.integers(0, len(records), 600))
    moved = again["lat"].to_numpy() + rng.choice([0.0, 0.0, 0.1, -0.1], 600)
    again = again.set_column(2, "lat", [moved]).set_column(4, "v", [rng.uniform(0, 65, 600)])
    place = folder / "records.csv"
    with place.open("wb") as file:
        for part in (records, again):
            is_first = part is records
            pc.write_csv(part, file, pc.WriteOptions(include_header=is_first, quoting_style="none"))
    return place


def slow(*given):
    """Return parameters of a test that is slow."""
    return pytest.param(*given, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("unit", "repeats", "more"),
    [
        ("user", "drop", {}),
        slow("user-day", "keep", {"select": {"hours": "0-9"}}),
        slow("user-week", "drop", {"select": {"box": (20.9, 52.1, 21.1, 52.3)}}),
        slow("user", "keep", {"time": None, "grid": Cells(4, None)}),
        ("user", "drop", {"statistics": "p50"}),
    ],
)  # fmt: skip
def test_coded_is_read(unit, repeats, more, text):
    """Ids, counts of rules, cells, sums, bins: all is as from the table of records."""
    if more.get("time", "") is None:
        more = {**more, "repeats": "keep"}
    more = {"repeats": repeats, **more}
    with coding() as found:
        coded = dataset(text, unit=unit, **more)
    # What becomes of repeats is left to the engine.
    assert (found[0] is None) == (repeats == "drop")
    with coding(tables=True):
        same(coded, dataset(text, unit=unit, **more))


@pytest.mark.parametrize("kind", ["folder", "gz", pytest.param("twice", marks=pytest.mark.slow)])
def test_files_of_text_are_coded_together(kind, text, tmp_path):
    lines = text.read_bytes().splitlines(keepends=True)
    for i in range(3):
        part = b"".join([lines[0], *lines[1 + i :: 3]])
        (tmp_path / f"{i}.csv").write_bytes(part.rstrip(b"\n"))
    source = tmp_path
    if kind == "gz":
        source = tmp_path / "records.csv.gz"
        source.write_bytes(gzip.compress(text.read_bytes()))
    elif kind == "twice":
        source = [str(text), str(text)]
    with coding() as found:
        coded = dataset(source, repeats="keep")
    assert found[0] is not None
    with coding(tables=True):
        same(coded, dataset(source, repeats="keep"))


@pytest.mark.parametrize(
    "why",
    ["late memory", "late quote", *map(slow, ("labels", "few", "two clocks", "memory"))],
)
def test_what_is_not_coded_is_read_with_a_table(why, text, tmp_path, monkeypatch):
    """None, and the same data set as ever."""
    lines = text.read_bytes().splitlines(keepends=True)
    more, source = {}, tmp_path / "records.csv"
    if why == "labels":
        more = {"grid": Labels("u"), "lat": None, "lon": None, "timezone": WARSAW}
    elif why == "two clocks":
        more = {"unit": "user-day", "timezone": "Asia/Tokyo"}
    elif why == "late quote":
        lines[-1] = lines[-1].replace(b"bus", b'"bus').replace(b",", b'",', 1)
    source.write_bytes(b"".join(lines))
    with coding() as found, monkeypatch.context() as patch:
        if why == "few":
            patch.setattr(coded_records, "MIN_BYTES", 10**9)
        elif why == "memory":
            patch.setattr(coded_records, "MEMORY_SHARE", 1e-9)
        elif why == "late memory":
            patch.setattr(coded_records, "_expected_records", lambda *_: 10)
            patch.setattr(coded_records, "MEMORY_SHARE", 60 * 2_000 / 1e9)
        coded = dataset(source, **more)
    assert found == [None]
    with coding(tables=True):
        same(coded, dataset(source, **more))


def test_an_interruption_converts_no_further_block(text, monkeypatch):
    """Of a file of many blocks, at most those at work are converted after it."""
    converted, convert = [], block_loading.typed_block
    at_interruption = []

    def counted(*given, **named):
        converted.append(1)
        return convert(*given, **named)

    def interrupted(*_):
        at_interruption.append(len(converted))
        raise KeyboardInterrupt

    monkeypatch.setattr(block_loading, "typed_block", counted)
    monkeypatch.setattr(coded_records._CodedRecords, "insert", interrupted)
    with coding(rows=1), pytest.raises(KeyboardInterrupt):
        dataset(text)
    assert len(at_interruption) == 1
    assert len(converted) <= at_interruption[0] + 4
    assert text.stat().st_size > 20 * 9_000


def test_users_are_private(text):
    with coding() as found:
        dataset(text)
    assert "bus" not in repr(found[0])
    assert "array" not in repr(found[0])


def test_users_and_times_that_64_bits_do_not_hold():
    assert user_times([np.array([2**20])], [np.array([1, 2**60])]) is None


def fuzzed_file(path, rng, n_lines):
    """Write lines of which few have a field that nearly is a number or a time."""
    lines = ["u,t,lat,lon,v"]
    for i in range(n_lines):
        fields = [
            f"bus-{rng.randint(0, 9)}", f"2024-02-19T{i % 24:02}:{rng.randint(0, 59):02}:00Z",
            repr(52 + rng.random()), f"{21 + rng.random():.4f}", repr(65 * rng.random()),
        ]  # fmt: skip
        # Most blocks have none, some have several, so that both kinds of blocks are met.
        if i // 300 % 3 == 1 and rng.random() < 0.05:
            at = rng.randint(0, 4)
            fields[at] = fuzzed_time(rng) if at == 1 else fuzzed_number(rng)
        lines.append(",".join(field.replace(",", ";") for field in fields))
    path.write_text("\n".join(lines) + "\n", "utf-8")


@pytest.mark.slow
def test_fuzzed_files_are_read_alike(tmp_path):
    """Fields of any form among clean ones: coded, and as text by the engine; long in attacks."""
    n_files, seed = (40, random.SystemRandom().getrandbits(32)) if LONG else (2, 5)
    print(f"seed {seed}")  # noqa: T201  to repeat it
    rng = random.Random(seed)  # noqa: S311  no secret
    for i in range(n_files):
        path = tmp_path / f"{i}.csv"
        fuzzed_file(path, rng, 2_500)
        repeats = ("drop", "keep")[i % 2]
        with coding() as found:
            coded = dataset(path, repeats=repeats)
        assert found[0] is not None
        with coding(tables=True, plain=False):
            same(coded, dataset(path, repeats=repeats))


@pytest.mark.slow
def test_counting_text_loads_no_pandas(text):
    """Arrow loads it for some conversions, wherever it is installed: a second for nothing."""
    code = """
import sys
from hexveil.model.cells import Cells
from hexveil.records.duckdb.packing import coded_records
from hexveil.records.read import read
from hexveil.records.select import Select
coded_records.MIN_BYTES = 1
packed = coded_records._CodedRecords.packed
coded_records._CodedRecords.packed = lambda sink: print("coded") or packed(sink)
read(sys.argv[1], user="u", value="v", bounds=(0, 65), lat="lat", lon="lon", time="t",
     cells=Cells(7, "1h", "Europe/Warsaw"), select=Select(min_users=1), max_bad_rows=1,
     max_repeats=1)
print("pandas" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(text)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["coded", "False"]
