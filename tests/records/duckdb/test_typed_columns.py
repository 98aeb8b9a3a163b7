"""Delimited text with declared types: whatever is accepted has the value that its text has."""

import gzip
import os
import random
from dataclasses import replace

import pyarrow as pa
import pytest

from hexveil.base.errors import InputError
from hexveil.model.cells import Cells
from hexveil.records.duckdb import relation
from hexveil.records.duckdb.delimited import block_loading, parsed_records, plain_blocks
from hexveil.records.duckdb.delimited.plain_blocks import Block, NotPlainError
from hexveil.records.duckdb.delimited.typed_columns import TYPES, Declarations, typed_block
from hexveil.records.duckdb.expressions import instant, number
from hexveil.records.duckdb.session import Session
from hexveil.records.read import read
from hexveil.records.select import Select
from hexveil.records.sources.columns import ColumnRef
from hexveil.records.sources.headers import FirstLine

LONG = bool(os.environ.get("HEXVEIL_ATTACK"))
ZONE = "Europe/Warsaw"
LETTERS = "0123456789+-.eEx_, \t/:TZzUTCnaif٣½\xa0"
ODD_NUMBERS = [
    "", " ", "+1", "-0", "-0.0", ".5", "5.", "-.5e-3", "1e400", "-1e400", "1e-400", "4.9e-324",
    "2.4703282292062327e-324", "1_000", "0x10", "0x1p3", "1d5", "1f", "inf", "-inf", "Infinity",
    "nan", "NaN", "-nan", "nan(1)", "1,5", "1e", "e5", "--5", "1 2", " 7 ", "\t7", "7\t", "007",
    "00.10", "1e+5", "1E5", "1e05", "true", "TRUE", "null", "NULL", "NA", "1.7976931348623159e308",
    "9007199254740993", "0.1000000000000000055511151231257827021181583404541015625", "٣", "1.0.0",
]  # fmt: skip
ODD_TIMES = [
    "2024-02-19T10Z", "2024-02-19 10:11Z", "2024-02-19", "20240219", "2024-02-19T10:11:12",
    "2024-02-30T00:00:00Z", "2024-02-19T24:00:00Z", "2024-02-19T23:59:60Z", "1969-12-31T23:59:59Z",
    "2024-02-19T10:11:12+14:00", "2024-02-19T10:11:12+15:00", "2024-02-19T10:11:12-14:59",
    "2024-02-19T10:11:12+0530", "2024-02-19T10:11:12+05", "2024-02-19T10:11:12z",
    "2024-02-19T10:11:12 Z", "2024-02-19t10:11:12Z", "2024-02-19T10:11:12.5Z",
    "2024-02-19T10:11:12.123456789Z", "2024-02-19T10:11:12,123Z", "2100-01-01T00:00:00Z",
    "2099-12-31T23:59:59.999999Z", "1970-01-01T00:00:00-00:00", "1970-01-01T00:00:00+00:01",
    "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1708300800", "1708300800000", "1708300800.25",
    "1e9", "-5", "1899-12-31T00:00:00", "2024-03-31T02:30:00", "2024-10-27T02:30:00", "NaN", "",
]  # fmt: skip


def fuzzed_number(rng):
    """Return a text that is, or nearly is, a number."""
    drawn = rng.random()
    if drawn < 0.25:
        text = rng.choice(ODD_NUMBERS)
    elif drawn < 0.5:
        text = repr(rng.uniform(-1, 1) * 10 ** rng.uniform(-330, 308))
    elif drawn < 0.75:
        digits = "".join(rng.choices("0123456789", k=rng.randint(1, 40)))
        point = rng.randint(0, len(digits))
        text = rng.choice(["", "-"]) + digits[:point] + rng.choice(["", "."]) + digits[point:]
        text += rng.choice(["", "", f"e{rng.randint(-400, 400)}"])
    else:
        text = f"{rng.uniform(-180, 180):.{rng.randint(0, 17)}f}"
    return mutated(rng, text)


def fuzzed_time(rng):
    """Return a text that is, or nearly is, a time."""
    if rng.random() < 0.25:
        return mutated(rng, rng.choice(ODD_TIMES))
    year, month, day = rng.choice((1969, 1970, 2024, 2024, 2099, 2100)), rng.randint(0, 13), 0
    day, hour = rng.randint(0, 31), rng.randint(0, 24)
    minute, second = (rng.choice((0, 30, 59, 60)) for _ in range(2))
    fraction = rng.choice(("", "", ".1", ".12", ".123", ".123456", ".9999999"))
    offsets = (
        "Z",
        "Z",
        "",
        "",
        "+05:30",
        "-11:00",
        "+14:00",
        "+14:59",
        "+15:00",
        "+0530",
        "+05:60",
    )
    return mutated(
        rng,
        f"{year:04}-{month:02}-{day:02}{rng.choice('TTT t')}{hour:02}:{minute:02}:{second:02}"
        f"{fraction}{rng.choice(offsets)}",
    )


def mutated(rng, text):
    """Return the text, in one case of five with a letter changed, added or removed."""
    if rng.random() < 0.8:
        return text
    at = rng.randint(0, len(text))
    return text[:at] + rng.choice(["", rng.choice(LETTERS)]) + text[at + rng.choice((0, 1)) :]


def accepted(texts, *, is_time):
    """Return the texts that are given a declared type, each in a block of its own, and their types.

    Each text is there twice, so that a form is taken from one field and compared with another.
    """
    header = FirstLine("|", ("x", "y"))
    numbers = frozenset() if is_time else frozenset("x")
    declared = Declarations(("x",), numbers, "x" if is_time else None, has_zone=True)
    found = {}
    for text in texts:
        lines = f"{text}|\n{text}|\n".encode()
        block = typed_block(Block(lines), header, declared)
        ((_, kind),) = block.types
        if kind != "text":
            found.setdefault(kind, ([], []))
            found[kind][0].append(text)
            found[kind][1].append(block.table["x"].combine_chunks()[:1])
    return {kind: (texts, pa.concat_arrays(arrays)) for kind, (texts, arrays) in found.items()}


def disagreements(texts, typed, kind, expression):
    """Return the texts of which the engine's reading of the typed column differs from the text's.

    Also the number of texts with a value.
    """
    with Session("200MB") as session:
        session.register("fields", pa.table({"text": pa.array(texts, pa.string()), "typed": typed}))
        slow = expression(ColumnRef("text", (), TYPES["text"]))
        fast = expression(ColumnRef("typed", (), TYPES[kind]))
        rows = session.rows(
            # Bit by bit: minus zero and zero are told apart.
            f"SELECT text, CAST({slow} AS VARCHAR), CAST({fast} AS VARCHAR), "
            f"hash({slow}) = hash({fast}) FROM fields"
        )
    differ = [(t, s, f) for t, s, f, same in rows if s != f or (s is not None and not same)]
    return differ, sum(s is not None for _, s, _, _ in rows)


def check_numbers(n_fields, seed):
    """Compare both ways for fuzzed numbers; return how many fields were accepted."""
    rng = random.Random(seed)  # noqa: S311  no secret
    texts = [*ODD_NUMBERS, *(fuzzed_number(rng) for _ in range(n_fields - len(ODD_NUMBERS)))]
    texts = [text for text in texts if "|" not in text and "\n" not in text]
    found = accepted(texts, is_time=False)
    assert set(found) == {"number"}
    accepted_texts, typed = found["number"]
    differ, n_values = disagreements(
        accepted_texts, typed, "number", lambda ref: number(ref, "value", None)
    )
    assert not differ
    return n_values


def check_times(n_fields, seed):
    """Compare both ways for fuzzed times; return how many fields of each kind were accepted."""
    rng = random.Random(seed)  # noqa: S311  no secret
    texts = [*ODD_TIMES, *(fuzzed_time(rng) for _ in range(n_fields - len(ODD_TIMES)))]
    counts = {}
    for kind, (accepted_texts, typed) in accepted(texts, is_time=True).items():
        for part in ("utc", "wall"):
            differ, n_values = disagreements(
                accepted_texts,
                typed,
                kind,
                lambda ref, part=part: getattr(instant(ref, ZONE, None), part),
            )
            assert not differ
            counts[kind] = counts.get(kind, 0) + n_values
    return counts


def test_fuzzed_fields():
    assert check_numbers(1_500, seed=1) > 500
    counts = check_times(1_500, seed=2)
    assert min(counts[kind] for kind in ("number", "time", "naive time")) > 20


@pytest.mark.slow
def test_many_fuzzed_fields():
    """10,000 fields that are always the same; `make attack` draws 100,000 new ones."""
    n_fields, seed = (100_000, random.SystemRandom().getrandbits(32)) if LONG else (10_000, 3)
    print(f"seed {seed}")  # noqa: T201  to repeat it
    assert check_numbers(n_fields * 6 // 10, seed) > n_fields // 5
    counts = check_times(n_fields * 4 // 10, seed + 1)
    assert min(counts[kind] for kind in ("number", "time", "naive time")) > n_fields // 200


HEADER = "u,lat,lon,t,v,w"
CLEAN = [
    f"bus {i % 7},{52 + i / 100},21.0{i % 5},2024-02-19T{i % 24:02}:00:00Z,{i / 10},north"
    for i in range(60)
]
BAD_FIELDS = [
    "007,52.1,21,2024-02-19T10:11:12Z,1_000,é",
    "7.0,52.1,21,2024-02-19T10:11:12+01:00,+5,north",
    " 7,52.1,21,2024-02-19T10:11:12,nan,",
    ",52.1,21,,7,south",
    "x,,21,1708300800,inf,south",
    "x,52,21,2024-02-19 1:00Z,0x10,-",
]
FILES = {
    "clean": [HEADER, *CLEAN],
    "bad fields": [HEADER, *CLEAN, *BAD_FIELDS, *CLEAN],
    "local times": [HEADER, *(line.replace("Z,", ",") for line in CLEAN)],
    "two forms of times": [HEADER, *CLEAN, *(line.replace("Z,", ".500Z,") for line in CLEAN)],
    "seconds": [
        HEADER,
        *(line.replace("2024-02-19T", "1708").replace(":", "").replace("Z", "") for line in CLEAN),
    ],
    "quotes": [HEADER, *CLEAN, '"a,b",52,21,2024-02-19T10:11:12Z,4,"x""y"', *CLEAN],
    "short line": [HEADER, *CLEAN, "x,52", *CLEAN],
    "long line": [HEADER, *CLEAN, "x,52,21,2024-02-19T10:11:12Z,4,a,b", *CLEAN],
    "blank line": [HEADER, *CLEAN, "", *CLEAN, ""],
    "blanks": [HEADER, *CLEAN, "   ", "x , 52 , 21 , 2024-02-19T10:11:12Z , 4 , n "],
    "header alone": [HEADER],
    "semicolons": [line.replace(",", ";") for line in (HEADER, *CLEAN)],
    "tabs": [line.replace(",", "\t") for line in (HEADER, *CLEAN, *BAD_FIELDS)],
}


def parsed(path, monkeypatch, *, plain, cells=None, size=1_000, rows=30):
    """Return the parsed records of a file, and its number of malformed lines."""
    if plain:
        monkeypatch.setattr(block_loading, "SMALLEST_BLOCK", size)
        monkeypatch.setattr(block_loading, "LARGEST_BLOCK", size)
        monkeypatch.setattr(block_loading, "_ROWS_AT_ONCE", rows)
    else:
        monkeypatch.setattr(block_loading, "plain_blocks", refuse)
    found = {}
    count = relation.Relation.skipped

    def rows(relation, session, paths=None):
        found["rows"] = session.rows("SELECT * FROM parsed_records")
        return count(relation, session, paths)

    monkeypatch.setattr(relation.Relation, "skipped", rows)
    dataset = read(
        path, user="u", value="v", lat="lat", lon="lon", time="t", bounds=(0, 65), memory="64MB",
        cells=cells or Cells(8, "1h", ZONE), select=Select(min_users=1), max_bad_rows=1,
        max_repeats=1,
    )  # fmt: skip
    monkeypatch.undo()
    return sorted(map(repr, found["rows"])), dict(dataset.public.rules), dataset.public.occupancy.n


def refuse(*_):
    """Take every file for one that is not plain."""
    raise NotPlainError


def test_a_file_without_a_column_is_read_with_the_others(tmp_path, monkeypatch):
    """The engine merges the columns of all files, also of those that are plain."""
    (tmp_path / "1.csv").write_text("\n".join([HEADER, *CLEAN, ""]))
    lacks = [",".join(line.split(",")[:4]) for line in (HEADER, *CLEAN)]
    (tmp_path / "2.csv").write_text("\n".join([*lacks, ""]))
    files = [str(tmp_path / name) for name in ("1.csv", "2.csv")]
    fast, slow = (parsed(files, monkeypatch, plain=plain) for plain in (True, False))
    assert len(fast[0]) > len(CLEAN)
    assert fast[:2] == slow[:2]


@pytest.mark.parametrize("ending", ["\n", pytest.param("\r\n", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FILES)
def test_files_have_the_same_records_both_ways(name, ending, tmp_path, monkeypatch):
    path = tmp_path / "records.csv"
    path.write_bytes((ending.join(FILES[name]) + ending * (name != "blanks")).encode())
    if name == "header alone":
        for plain in (True, False):
            with pytest.raises(InputError, match="no record in it"):
                parsed(str(path), monkeypatch, plain=plain)
        return
    fast, slow = (parsed(str(path), monkeypatch, plain=plain) for plain in (True, False))
    assert fast[:2] == slow[:2]
    assert fast[2].tolist() == slow[2].tolist()


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbfu,v\n1,2\n", b'"u","v"\n1,2\n', b'"u,\nv"\n1,2\n', b'u"v",w\n1,2\n',
        b"u,v\n1,2\r\n3,4\n", b"u,v\n1,2\r3,4\n",
        b"u,v\n1,\0\n", b"u,v\n\xff,2\n", b"u,v\n" + b"x" * 3_000_000 + b",2\n", b"u,v\r\n1,2\n",
    ],
)  # fmt: skip
def test_only_plain_blocks_are_taken(text, tmp_path):
    path = tmp_path / "records.csv"
    path.write_bytes(text)
    if text.startswith((b"\xef\xbb\xbf", b'"u",')):
        assert [block.text for block in plain_blocks.plain_blocks(str(path), 10)] == [b"1,2\n"]
        return
    with pytest.raises(NotPlainError):
        list(plain_blocks.plain_blocks(str(path), 1_000))


def test_blocks_make_up_the_file(tmp_path):
    lines = b"".join(b"%d,%d\n" % (i, i * i) for i in range(500))
    path = tmp_path / "records.csv"
    for text in (lines, lines.rstrip(b"\n")):
        path.write_bytes(b"u,v\n" + text)
        for size in (1, 7, 100, 10_000):
            blocks = list(plain_blocks.plain_blocks(str(path), size))
            assert b"".join(block.text for block in blocks) == text
            assert all(block.text for block in blocks)
            # Blocks that are read into the memory of earlier ones, of this file and another.
            unused, copies = [bytearray(b"x" * 10 * size), bytearray(b"y,\n")], []
            for block in plain_blocks.plain_blocks(str(path), size, unused):
                copies.append(bytes(block.text))
                unused.append(block.text)
            assert copies == [block.text for block in blocks]


def test_folder_of_plain_and_other_files_is_read_once_each(tmp_path, monkeypatch):
    for i, name in enumerate(("clean", "quotes", "short line", "bad fields", "clean")):
        text = "\n".join(FILES[name]) + "\n"
        if i == 4:
            (tmp_path / "4.csv.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (tmp_path / f"{i}.csv").write_text(text, "utf-8")
    ways = [parsed(str(tmp_path), monkeypatch, plain=plain) for plain in (True, False)]
    assert ways[0][:2] == ways[1][:2]
    assert ways[0][1]["unparsable"] == 1
    listed = [str(tmp_path / "0.csv")] * 2
    ways = [parsed(listed, monkeypatch, plain=plain) for plain in (True, False)]
    assert ways[0][:2] == ways[1][:2]
    assert len(ways[0][0]) == 2 * len(CLEAN)


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_packed_files_are_read_whole_or_refused(ending, tmp_path, monkeypatch):
    for name in ("clean", "quotes"):
        text = ("\n".join(FILES[name]) + "\n").encode()
        (tmp_path / "plain.csv").write_bytes(text)
        path = tmp_path / f"{name}.csv.{ending}"
        zstd = pa.Codec("zstd").compress(text, asbytes=True)
        path.write_bytes(gzip.compress(text) if ending == "gz" else zstd)
        ways = [
            parsed(str(one), monkeypatch, plain=plain)[:2]
            for one, plain in ((path, True), (path, False), (tmp_path / "plain.csv", True))
        ]
        assert ways[0] == ways[1] == ways[2]
        whole = path.read_bytes()
        damaged = [whole[:-6]]
        if ending == "gz":  # a checksum is in every such file
            damaged.append(whole[:-8] + bytes(4) + whole[-4:])
        for damage in damaged:
            path.write_bytes(damage)
            for plain in (True, False):
                with pytest.raises(InputError, match="damaged"):
                    parsed(str(path), monkeypatch, plain=plain)


def test_declared_format_keeps_text():
    from hexveil.records.sources.record_format import RecordFormat  # noqa: PLC0415

    class Request:
        format = RecordFormat(decimal=",")
        rules = type("Rules", (), {"naive": None})

    used = [(role, ColumnRef(role, (), TYPES["text"])) for role in ("value", "lat", "time")]
    declared = parsed_records.declarations(used, Request)
    assert (declared.numbers, declared.time, declared.has_zone) == (frozenset(), "time", False)
    Request.format = replace(RecordFormat(), unit_suffix="km/h", time_format="%d/%m/%Y")
    declared = parsed_records.declarations(used, Request)
    assert (declared.numbers, declared.time) == (frozenset({"lat"}), None)
    # What is text to one role is text to all.
    used.append(("label", used[1][1]))
    assert parsed_records.declarations(used, Request).numbers == frozenset()
