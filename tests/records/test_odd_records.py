"""Twins: the same records with and without one odd record change nobody else's pairs."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from hexveil import InputError, StorageError
from records import engines

BUSES, WARDS = ["a", "a", "b", "b", "c", "c"], ["x", "y", "x", "y", "x", "y"]
SECONDS = 1_708_336_812


def table(**columns):
    """Return records of three buses in two wards."""
    return pa.table(
        {
            "bus": BUSES,
            "ward": WARDS,
            "speed": [10.0, 20.0, 30.0, 40.0, 50.0, 60.0],
            "time": [f"2024-02-19T10:0{i}:12Z" for i in range(6)],
            **columns,
        }
    )


ODD = {"bus": "a", "ward": "x", "speed": 1.0, "time": "2024-02-19T11:00:12Z"}


def not_utf8(*texts):
    """Return texts that Arrow takes for UTF-8 unchecked."""
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)


def moments(unit, last, zone=None):
    """Return six ordinary times and one odd number, of a unit since 1970."""
    parts = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    ordinary = [SECONDS * parts + i * parts for i in range(6)]
    return pa.array([*ordinary, last], pa.int64()).view(pa.timestamp(unit, zone))


def decimals(last):
    """Return decimals of 38 digits, the last an odd one."""
    return pa.array([*range(6), last], pa.decimal128(38, 0))


COLUMNS = {
    "an id that is not UTF-8": ("bus", not_utf8(*map(str.encode, BUSES), b"a\xff")),
    "an id with a NUL": ("bus", pa.array([*BUSES, "a\x00"])),
    "an id of a megabyte": ("bus", pa.array([*BUSES, "a" * 10**6])),
    "a place that is not UTF-8": ("ward", not_utf8(*map(str.encode, WARDS), b"\xfe")),
    "a value that is not UTF-8": ("speed", not_utf8(*[b"1"] * 6, b"1\xff")),
    "a value beyond doubles": ("speed", pa.array([*["1"] * 6, "1e999"])),
    "a value that is no number": ("speed", pa.array([1.0] * 6 + [float("nan")])),
    "an infinite value": ("speed", pa.array([1.0] * 6 + [float("inf")])),
    "a decimal of 38 digits": ("speed", decimals(10**37)),
    "a time that is not UTF-8": ("time", not_utf8(*[b"2024-02-19T10:00:12Z"] * 6, b"\xff\xfe")),
    "a year of six digits": ("time", pa.array(["2024-02-19T10:00:12Z"] * 6 + ["299999-01-01T00Z"])),
    "milliseconds beyond calendars": ("time", moments("ms", 2**62, "UTC")),
    "milliseconds before calendars": ("time", moments("ms", -(2**63), "UTC")),
    "local milliseconds": ("time", moments("ms", 2**62)),
    "microseconds beyond calendars": ("time", moments("us", 2**63 - 1, "UTC")),
    "nanoseconds at their end": ("time", moments("ns", 2**63 - 1)),
    "a number as time": ("time", pa.array([float(SECONDS)] * 6 + [1e300])),
    "a day beyond calendars": (
        "time",
        pa.array([19772] * 6 + [2**31 - 1], pa.int32()).view(pa.date32()),
    ),
    "a time of day beyond the day": (
        "ward",
        pa.array([0] * 6 + [2**62], pa.int64()).view(pa.time64("us")),
    ),
}


def with_odd(role, column):
    """Return the records without and with one more, in which a column is odd."""
    plain = table(**{role: column.slice(0, 6)})
    rest = {
        name: pa.array([ODD[name]], plain.schema.field(name).type) for name in ODD if name != role
    }
    return plain, pa.concat_tables([plain, pa.table({**rest, role: column.slice(6)}).select(
        plain.column_names
    )])  # fmt: skip


def pairs_of(source, protect, **changes):
    """Return the records and the sum of each ward and bus but a, and how many pairs it has."""
    options = {
        "user": "bus", "value": "speed", "bounds": (0, 65), "time": "time", "timezone": "UTC",
        "repeats": "keep",
    }  # fmt: skip
    if protect == "presence":
        wards = ["x", "y", "00:00:00"]
        cells = hv.Labels("ward", values=wards)
        found = hv.read(source, protect="presence", cells=cells, **options | changes).pairs
        return {(int(c), int(n), float(mean)) for c, n, mean in zip(
            found.cell, found.records, found.mean, strict=True
        )}  # fmt: skip
    select = hv.Select(min_users=1)
    dataset = hv.read(
        source, cells=hv.Labels("ward"), select=select, max_bad_rows=0.5, **options | changes
    )
    return {
        (ward, bus, n, total)
        for (ward, bus), (n, total, _) in engines.pairs_of(dataset).items()
        if not bus.startswith("a")
    }


@pytest.mark.slow
@pytest.mark.parametrize("protect", ["values", "presence"])
@pytest.mark.parametrize("odd", COLUMNS)
def test_an_odd_record_changes_no_pair_of_others(odd, protect, tmp_path):
    """In Parquet and in memory it is read, or left out, and refuses no reading."""
    sources = []
    for number, twin in enumerate(with_odd(*COLUMNS[odd])):
        pq.write_table(twin, tmp_path / f"{number}.parquet")
        sources.append((twin, str(tmp_path / f"{number}.parquet")))
    for without, within in zip(*sources, strict=True):
        before, after = pairs_of(without, protect), pairs_of(within, protect)
        if protect == "presence":
            # Of bus a one pair may differ, or be new.
            assert len(before - after) <= 1
            assert len(after - before) <= 1
        else:
            assert before == after


def test_a_file_without_statistics_is_read_like_one_with_them(tmp_path):
    """What a file says of its times spares a copy of it, and decides nothing."""
    _, odd = with_odd(*COLUMNS["milliseconds beyond calendars"])
    for name, stated in (("with", True), ("without", False)):
        pq.write_table(odd, tmp_path / f"{name}.parquet", write_statistics=stated)
    read = [pairs_of(str(tmp_path / f"{name}.parquet"), "values") for name in ("with", "without")]
    assert read[0] == read[1]
    assert read[0]


def test_folders_stay_columns_of_files_with_times_beyond_calendars(tmp_path):
    """A folder named key=value is a column, of a file of odd times too."""
    _, odd = with_odd(*COLUMNS["milliseconds beyond calendars"])
    for ward in ("x", "y"):
        (tmp_path / f"ward={ward}").mkdir()
        pq.write_table(odd.drop_columns("ward"), tmp_path / f"ward={ward}" / "r.parquet")
    found = pairs_of(str(tmp_path), "values")
    assert {place for place, *_ in found} == {"x", "y"}


@pytest.mark.parametrize("protect", ["values", "presence"])
@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        ([True, False] * 3, "holds true and false"),
        (pa.array([[("k", i)] for i in range(6)], pa.map_(pa.string(), pa.int64())), "is nested"),
        ([[1]] * 6, "is nested"),
        ([{"a": 1}] * 6, "is nested"),
        (pa.array(range(6), pa.int64()).view(pa.time64("us")), "holds times, which are no ids"),
    ],
)
def test_some_types_are_no_ids(ids, sentence, protect):
    """Whatever records hold: the type alone decides."""
    with pytest.raises(InputError, match=sentence):
        pairs_of(table(bus=ids), protect)


def test_text_that_is_not_utf8_has_a_mark_for_each_byte():
    """In nested columns and dictionaries too, and in each slice of them."""
    texts = not_utf8(b"a", b"b\xe2\x82c", b"e", b"d")
    struct = pa.StructArray.from_arrays([texts], ["id"])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), texts)
    coded = pa.DictionaryArray.from_arrays(pa.array([3, 1, 0, 1], pa.int32()), texts)
    columns = {"s": struct, "l": lists, "d": coded, "t": texts, "v": [1.0] * 4}
    names = ("s.id", "l.0", "d", "t")
    found = hv.read(
        pa.table(columns).slice(1), user="t", value="v", bounds=(0, 9), cells=hv.Labels(*names),
        select=hv.Select(min_users=1),
    )  # fmt: skip
    assert found.units.ids() == [b"b??c", b"d", b"e"]
    marked = [("b??c",) * 2, ("d",) * 2, ("e",) * 2]
    assert list(zip(*found.public.cells.labels.values(), strict=True)) == [
        (*both, coded, both[0]) for both, coded in zip(marked, ("b??c", "b??c", "a"), strict=True)
    ]


# ---- JSON ----

GOOD = [json.dumps(row).encode() for row in table().to_pylist()]


def document(**changes):
    """Return the odd record as a document."""
    return json.dumps(ODD | changes).encode()


DOCUMENTS = {
    "broken": b'{"bus": "a", "speed": ',
    "an open string": b'{"bus": "a',
    "bytes that are not UTF-8": b'{"bus": "a\xff", "ward": "x", "speed": 1}',
    "half a letter": rb'{"bus": "a\ud800", "ward": "x", "speed": 1}',
    "a NUL": b'{"bus": "a\x00", "ward": "x", "speed": 1}',
    "deep lists": document()[:-1] + b', "x": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "deep objects": document()[:-1] + b', "x": ' + b'{"y":' * 5000 + b"1" + b"}" * 5001,
    "no object": b"[1, 2, 3]",
    "a list of lists": b'[[[[{"a": ',
    "a word": b"NaN",
    "two documents": document() + document(bus="b"),
    "an infinite value": document(speed=1)[:-1] + b', "speed": 1e999}',
    "an id that is a list": document(bus=["a"]),
    "an id that is an object": document(bus={"a": 1}),
    "an id that is true": document(bus=True),
    "a time beyond calendars": document(time="299999-12-31T23:59:59Z"),
    "a time of 300 digits": document(time=1e300),
    "many keys": document(**{f"k{i}": i for i in range(3000)}),
}


def first(text):
    """Return a document as the first line, in the middle and at the end."""
    return [[text, *GOOD], [*GOOD[:3], text, *GOOD[3:]], [*GOOD, text]]


@pytest.mark.slow
@pytest.mark.parametrize("odd", DOCUMENTS)
def test_an_odd_document_changes_no_pair_of_others(odd, tmp_path):
    """It is left out wherever its line stands."""
    text = DOCUMENTS[odd]
    (tmp_path / "good.ndjson").write_bytes(b"\n".join(GOOD))
    expected = pairs_of(str(tmp_path / "good.ndjson"), "values")
    assert len(expected) == 4
    for number, lines in enumerate(first(text)):
        (tmp_path / f"{number}.ndjson").write_bytes(b"\n".join(lines))
        assert pairs_of(str(tmp_path / f"{number}.ndjson"), "values") >= expected


@pytest.mark.parametrize(
    "text",
    [b"[" + b", ".join(GOOD) + b', {"bus": ', document(note="y" * 17_000_000)],
    ids=["array", "line"],
)
def test_a_damaged_array_and_a_line_that_is_too_long_are_refused(tmp_path, text):
    """Where the next record begins cannot be told; nothing of the file is shown."""
    (tmp_path / "r.json").write_bytes(text)
    with pytest.raises(InputError, match="could not be read to its end"):
        pairs_of(str(tmp_path / "r.json"), "values", memory="200MB")


def test_a_document_that_is_too_large_is_told_to_be_lines(tmp_path):
    """Memory is kept, and the sentence has a line that splits the document."""
    rows = b",".join(GOOD * 20_000)
    (tmp_path / "r.json").write_bytes(b'{"results": [' + rows + b"]}")
    with pytest.raises(StorageError, match=r"jq -c '\.results\[\]'"):
        pairs_of(
            str(tmp_path / "r.json"), "values", memory="64MB",
            format=hv.RecordFormat(record_path="results"),
        )  # fmt: skip


def test_a_broken_line_of_nested_documents_is_left_out(tmp_path):
    """Answers of an exchange, one a line: a damaged one is a malformed record."""
    answer = b'{"results": [' + b",".join(GOOD) + b"]}"
    (tmp_path / "r.json").write_bytes(b"\n".join([answer, b'{"results": [', answer]))
    read = pairs_of(
        str(tmp_path / "r.json"), "values", format=hv.RecordFormat(record_path="results")
    )
    assert {n for *_, n, _ in read} == {2}


@pytest.mark.parametrize("protect", ["values", "presence"])
def test_files_with_times_of_two_calendars_are_refused_by_their_types(tmp_path, protect):
    """The engine would fail on a single time that one of the types does not know."""
    paths = []
    for unit in ("ns", "us"):
        column = moments(unit, SECONDS * 10**6, "UTC").slice(0, 6)
        paths.append(str(tmp_path / f"{unit}.parquet"))
        pq.write_table(table(time=column), paths[-1])
    with pytest.raises(InputError, match="times or times in nanoseconds, by file"):
        pairs_of(paths, protect)
