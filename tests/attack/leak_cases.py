"""Ways in which records and calls can be wrong; each is done to a folder of canaries.

A case is a spoiler of the folder, the options that go with it, and the exit codes it may end with.
"""

import os

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from attack import leak_canaries as canaries


def _source(here, name, content):
    (here / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return "--set", f"source={name}"


def _text(records, ending=".csv"):
    path = canaries.write(_scratch(ending), records)
    content = path.read_bytes()
    path.unlink()
    return content


def _scratch(ending):
    from pathlib import Path  # noqa: PLC0415

    return Path(f"scratch-{os.getpid()}{ending}")


def changed(**columns):
    """Return a spoiler that replaces columns: a function of the column, or its new values."""

    def spoil(here, records):
        for name, made in columns.items():
            column = made(records[name]) if callable(made) else made
            column = pa.array(column) if isinstance(column, list) else column
            records = records.set_column(records.column_names.index(name), name, column)
        pq.write_table(records, here / "buses.parquet")
        return ()

    return spoil


def text_with(make, ending=".csv"):
    """Return a spoiler that puts a text file, made from a good one, in place of the records."""

    def spoil(here, records):
        return _source(here, f"bad{ending}", make(_text(records, ending)))

    return spoil


def cut(here, records):
    whole = (here / "buses.parquet").read_bytes()
    (here / "buses.parquet").write_bytes(whole[: len(whole) // 2])
    return ()


def damaged(here, records):
    pq.write_table(records, here / "buses.parquet", compression="none", use_dictionary=False)
    whole = (here / "buses.parquet").read_bytes()
    (here / "buses.parquet").write_bytes(whole[:40] + b"\xff" * 300 + whole[340:])
    return ()


def with_broken_ids(records):
    """Return the records with ids that are no UTF-8, though declared so."""
    ids = b"".join(b"\xff\xfe" + one.encode() for one in records["bus"].to_pylist())
    size = len(ids) // len(records)
    ends = pa.array([size * k for k in range(len(records) + 1)], pa.int32())
    bad = pa.StringArray.from_buffers(len(records), ends.buffers()[1], pa.py_buffer(ids))
    return records.set_column(0, "bus", bad)


def not_utf8(here, records):
    pq.write_table(with_broken_ids(records), here / "buses.parquet")
    return ()


def another_column(here, records):
    (here / "days").mkdir()
    pq.write_table(records, here / "days" / "1.parquet")
    pq.write_table(records.drop_columns(["line"]), here / "days" / "2.parquet")
    return "--set", "source=days"


def another_ledger(here, records):
    (here / "ledger.sqlite").write_bytes(_text(records))
    return ()


def key_of_another(here, records):
    (here / "other.key").write_bytes(_text(records))
    return "--set", "ledger.key=other.key"


def another_kind(here, records):
    (here / "buses.xml").write_bytes(_text(records))
    return "--set", "source=buses.xml"


def in_place_of_the_run(here, records):
    (here / "run.toml").write_bytes(_text(records))
    return ()


def as_context(here, records):
    (here / "roads.geojson").write_bytes(_text(records, ".json"))
    return "--set", "release.context=roads.geojson"


def _first(share, value):
    def made(column):
        size = int(len(column) * share)
        return pa.array([value] * size + column.to_pylist()[size:])

    return made


def _as_text(column):
    return pc.cast(column, pa.string())


def good(here, records):
    return ()


STEM = canaries.STEM
BAD = {
    "no such file": (lambda *_: ("--set", "source=none.parquet"), (), (2,)),
    "parquet cut off": (cut, (), (2,)),
    "parquet damaged": (damaged, (), (1, 2)),
    "parquet not UTF-8": (not_utf8, (), (0,)),
    "csv odd quotes": (text_with(lambda c: c.replace(b',"', b',"""')), (), (0, 2)),
    "columns differ": (another_column, (), (2,)),
    "another kind of file": (another_kind, (), (2,)),
    "records as run file": (in_place_of_the_run, (), (2,)),
    "user misspelt": (good, ("--user", "buss"), (2,)),
    "value misspelt": (good, ("--value", "sped"), (2,)),
    "value is the id": (good, ("--value", "bus", "--user", "line"), (2,)),
    "time is the id": (good, ("--time", "bus", "--user", "line"), (2,)),
    "lat is the id": (good, ("--lat", "bus", "--user", "line"), (2,)),
    "location is the id": (changed(lat=canaries.table()["bus"]), (), (2,)),
    "value in two roles": (good, ("--time", "speed"), (2,)),
    "values are ids": (changed(speed=canaries.table()["bus"]), (), (2,)),
    "values with a unit": (
        changed(speed=lambda c: pc.binary_join_element_wise(_as_text(c), "km/h", " ")),
        (),
        (2,),
    ),
    "values are lists": (changed(speed=lambda c: [[v] for v in c.to_pylist()]), (), (2,)),
    "values are times": (
        changed(
            speed=lambda c: pa.array([int(v * 1e6) for v in c.to_pylist()], pa.timestamp("us"))
        ),
        (),
        (2,),
    ),
    "values are switches": (changed(speed=lambda c: [True] * len(c)), (), (2,)),
    "a fifth without value": (changed(speed=_first(0.2, None)), (), (2,)),
    "a fifth not a number": (changed(speed=_first(0.2, float("nan"))), (), (2,)),
    "ids are null": (changed(bus=lambda c: pa.array([None] * len(c), pa.string())), (), (2,)),
    "a fifth without id": (changed(bus=_first(0.2, None)), (), (2,)),
    "ids are nested": (changed(bus=lambda c: [{"id": v} for v in c.to_pylist()]), (), (2,)),
    "times are ids": (changed(time=canaries.table()["bus"]), (), (2,)),
    "a fifth without time": (changed(time=_first(0.2, STEM)), (), (2,)),
    "times without zone": (
        changed(time=lambda c: [t.removesuffix("+05:30") for t in c.to_pylist()]),
        ("--set", "read.timezone=Mars/Olympus"),
        (2,),
    ),
    "places out of range": (changed(lat=_first(0.5, 95.0)), (), (2,)),
    "elsewhere": (good, ("--set", "select.box=50,10,51,11"), (2,)),
    "bounds the wrong way": (good, ("--bounds", "65,0"), (2,)),
    "bounds off the quantum": (good, ("--set", "values.quantum=2"), (2,)),
    "bounds below all": (good, ("--bounds", "0,5"), (0,)),
    "no cell left": (good, ("--set", "select.min_users=1000"), (2,)),
    "unknown option": (good, ("--sped", "1"), (2,)),
    "too little memory": (good, ("--set", "read.memory=1MB"), (2,)),
}
"""What every command that reads records is tried on."""

RELEASED = {
    "ledger is the records": (another_ledger, (), (2,)),
    "key is the records": (key_of_another, (), (2,)),
    "context is the records": (as_context, (), (2,)),
    "budget too small": (good, ("--set", "ledger.budget=0.5"), (3,)),
    "out is there": (good, ("--out", "."), (2,)),
    "plan is none": (good, ("--from-plan", "."), (2,)),
    "too fine": (good, ("--epsilon", "0.001", "--set", "release.accept_noise=false"), (2,)),
}
"""What only a release can meet."""
