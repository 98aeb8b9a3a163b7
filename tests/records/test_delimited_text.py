"""Delimited text of any bytes: one reader, against a plain oracle, in both privacy models.

The oracle reads a file letter by letter, the slowest and plainest way that there is.
"""

import re
import subprocess
import sys
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from examples import examples
from hexveil import InputError, RecordFormat
from records.engines import pairs_of

HEADER = b"user,speed,ward\n"
ENDS = (b"\n", b"\r", b"\r\n", b"\n\r")


def oracle(data, mark=b",", max_line=1_000_000):
    """Return the records of a text, and how many of its lines are malformed."""
    lines, line = [], bytearray()
    for byte in data:
        if byte in b"\r\n":
            lines.append(bytes(line))
            line.clear()
        else:
            line.append(byte)
    lines = [one for one in [*lines, bytes(line)] if one]
    header = fields_of(lines.pop(0).removeprefix(b"\xef\xbb\xbf"), mark)
    lines = [one.removeprefix(b"\xef\xbb\xbf") for one in lines]
    records, malformed = [], 0
    for one in filter(None, lines):
        if len(one) > max_line:
            malformed += 1
            continue
        fields = fields_of(one, mark)
        if fields is not None and len(fields) == len(header) + 1 and one.endswith(mark):
            fields.pop()
        if fields is None or len(fields) != len(header) or not all(map(is_text, fields)):
            malformed += 1
        else:
            records.append(tuple(field.decode() for field in fields))
    return sorted(records), malformed


def fields_of(line, mark):
    """Return the fields of a line; None if a quote that begins a field does not end it."""
    fields, at = [], 0
    while True:
        field = bytearray()
        if line[at : at + 1] == b'"':
            at += 1
            while line[at : at + 2] == b'""' or (at < len(line) and line[at : at + 1] != b'"'):
                field += line[at : at + 1]
                at += 2 if line[at : at + 1] == b'"' else 1
            if at >= len(line) or line[at + 1 : at + 2] not in (b"", mark):
                return None
            at += 1
        else:
            while at < len(line) and line[at : at + 1] != mark:
                field += line[at : at + 1]
                at += 1
        fields.append(bytes(field))
        if at >= len(line):
            return fields
        at += 1


def is_text(field):
    """Return whether bytes are UTF-8."""
    try:
        field.decode()
    except UnicodeDecodeError:
        return False
    return True


def check_read(path, data, fillers=0):
    """Check that a file is read as the oracle reads `data`, and so many lines of `FILLER`."""
    rows, malformed = oracle(data)
    rows += [("f", "3", "w" * 1_000)] * fillers
    valued = [row for row in rows if re.fullmatch(r" *\d+ *", row[1])]
    named = [row for row in valued if row[0]]
    pairs = {}
    for user, speed, ward in named:
        if ward:
            k, (n, *sums) = 1000 * min(int(speed), 40), pairs.get((ward, user), (0, 0, 0))
            pairs[ward, user] = n + 1, sums[0] + k, sums[1] + k * k
    dataset = units(path, memory="64MB")
    assert pairs_of(dataset) == pairs
    assert (
        dataset.public.rules.items()
        >= {
            "records read": len(rows) + malformed,
            "unparsable": malformed,
            "without a usable value": len(rows) - len(valued),
            "without a user": len(valued) - len(named),
            "without a usable place": sum(not ward for *_, ward in named),
        }.items()
    )


ODD = [
    *ENDS, b'"', b'""', b",", b",,", b"\0", b"\xef\xbb\xbf", b"\xff", b"\xc3", b"\xc3\xa9", b" ",
    b"7", b"a", b'"a"', b'"a,b"', b'a"b', b'"a""b"', b"x" * 700, b"\xe2\x80\xa8", b"\x85", b"#",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:user. .* are equal as numbers:UserWarning")
@examples(40)
@given(st.lists(st.sampled_from(ODD), max_size=200), st.sampled_from(ENDS), st.booleans())
def test_any_bytes_are_read_as_the_oracle_reads_them(tmp_path_factory, parts, end, mark):
    """Whatever stands in a file, records and malformed lines are those of the plain reader."""
    header = b"\xef\xbb\xbf" * mark + HEADER.replace(b"\n", end)
    data = header + end.join([b"bus,1,x", b"".join(parts), b"tram,2,y"])
    path = tmp_path_factory.mktemp("text") / "r.csv"
    path.write_bytes(data)
    check_read(path, data)


BLOCK, FILLER = 1 << 19, b"f,3," + b"w" * 1_000 + b"\n"
"""Bytes that are read at once with the least memory, and a line that fills them."""


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_lines_across_blocks_are_read_as_within_them(tmp_path, end):
    """Where a block ends changes nothing, nor does what a line has beside it."""
    odd_lines, fillers, data = HEADER, 0, HEADER
    for number, odd in enumerate(ODD):
        for cut in {0, 1, len(odd)}:
            begin, lines = b"b,%d," % number, odd + end + odd + b",4,y" + end
            room = -(len(data) + len(begin) + cut + len(FILLER)) % BLOCK + len(FILLER)
            n, spaces = divmod(room, len(FILLER))
            fillers += n
            data += FILLER * (n - 1) + FILLER.replace(b"3", b" " * spaces + b"3")
            data += begin + lines
            odd_lines += begin + lines
            assert (len(data) - len(lines) + cut) % BLOCK == 0
    (tmp_path / "r.csv").write_bytes(data)
    check_read(tmp_path / "r.csv", odd_lines, fillers)


@pytest.mark.slow
def test_a_line_that_is_too_long_is_one_malformed_line(tmp_path):
    """By a million bytes; what follows it in the next blocks is no record of anybody."""
    long = b"z,1,x," * 400_000
    lines = [b"z,1," + b"w" * (10**6 + more) for more in (-5, -4, -3)]
    data = HEADER + b"\n".join([*PLAIN_LINES, long + b"z,1,x", *lines, b"y,2,x"])
    (tmp_path / "r.csv").write_bytes(data)
    check_read(tmp_path / "r.csv", data)


ODDITIES = [
    b"z,1,x\r", b"z,1\r,x", b"z\r,1,x", b"\n\r\rz,1,x\n\r", b"z,1,x\r\r\n", b'z,"1,x', b'z,1"2,x',
    b'"z"x,1,x', b'z,1,"x', b"z\0,1,x", b"\0", b"z,\0001,x", b"\xef\xbb\xbfz,1,x", b"\xfe\xff",
    b"z,\xff,x", b"\xff,1,x", b"z,1,\xff", b"z,1", b"z,1,x,9", b"z", b"z," + b"9" * 400 + b",x",
    b"z," + b"1" * 1_200 + b",x", b"z," + b"1," * 30, b"7.0,1,x", b"7,1,x", b"1e300,1,x",
    b"nan,inf,x", b"z,1e999,x", b"z,-0.0,x", b"z,0x1F,x", b"z,1_0,x", b"z,1,\xf0\x9f\x9a\x8c",
    b"z,true,x", b"z,{},x", b"z,[" * 40, b"z,NULL,x", b"user,speed,ward",
]  # fmt: skip
PLAIN_LINES = [b"u%d,%d,%s" % (i % 12, i % 40, b"xy"[i % 2 : i % 2 + 1]) for i in range(60)]


def units(path, **options):
    """Return what is read of units."""
    return hv.read(
        path, user="user", value="speed", bounds=(0, 40), cells=hv.Labels("ward"),
        select=hv.Select(min_users=1), max_bad_rows=1, accept_single_records=True, **options,
    )  # fmt: skip


def of_units(path, **options):
    """Return the pairs of units by their ids."""
    return set(pairs_of(units(path, **options)).items())


def of_anybody(path, **options):
    """Return the pairs of each unit of private presence, without its id."""
    pairs = hv.read(
        path, user="user", value="speed", bounds=(0, 40), quantum=1, protect="presence",
        cells=hv.Labels("ward", values=["x", "y"]), **options,
    ).pairs  # fmt: skip
    ends = [*pairs.begin[1:], pairs.cell.size]
    return Counter(
        tuple(zip(*(a[i:j].tolist() for a in (pairs.cell, pairs.records, pairs.mean)), strict=True))
        for i, j in zip(pairs.begin, ends, strict=False)
    )


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_odd_records_change_nobody_else(tmp_path, end):
    """With and without one unit's records of any bytes all others have the same pairs."""
    (tmp_path / "without.csv").write_bytes(HEADER + end.join(PLAIN_LINES))
    lines = [*PLAIN_LINES[:30], *ODDITIES, b"1" * 1_200_000, *PLAIN_LINES[30:]]
    (tmp_path / "with.csv").write_bytes(HEADER + end.join(lines))
    assert of_units(tmp_path / "with.csv") >= of_units(tmp_path / "without.csv")
    added = of_anybody(tmp_path / "with.csv")
    added.subtract(of_anybody(tmp_path / "without.csv"))
    assert min(added.values()) >= 0


ODD_TIMES = [
    *("infinity", "-infinity", "epoch", "294247-01-10", "9999999-01-01T00:00:00Z", "1e300"),
    *("290309-12-22 (BC) 00:00:00", "2024-02-30T00:00:00Z", "2024-01-01T00:00:00+15:59"),
    *("2024-01-01T25:00:00Z", "-99999999-01-01", "0000-00-00", "9" * 300, "2024-01-01T00:00Z"),
    *("2024-01-01 00:00:00.9999999999Z", "\0", "2024-01-01T00:00:00 Mars/Base", "1e12", "now"),
    *("", " ", "2024-01-01T00:00:00\0Z", "294276-12-31T23:59:59Z", "-290307-01-01T00:00:00Z"),
]


@pytest.mark.parametrize("declared", [None, "%Y-%m-%dT%H:%M:%SZ", "%d/%m/%Y %z"])
def test_no_time_refuses_a_reading(tmp_path, declared):
    """A time beyond all calendars makes its record unusable at most."""
    good = "".join(f"u{i % 9},{i},x,2024-01-01T00:{i:02}:00Z\n" for i in range(50))
    odd = "".join(f"z{i},1,x,{time}\n" for i, time in enumerate(ODD_TIMES))
    for name, text in (("without", good), ("with", good + odd)):
        (tmp_path / f"{name}.csv").write_text("user,speed,ward,time\n" + text)
    options = {"time": "time", "timezone": "UTC", "format": RecordFormat(time_format=declared)}
    with_them, without = (of_anybody(tmp_path / f"{n}.csv", **options) for n in ("with", "without"))
    with_them.subtract(without)
    assert min(with_them.values(), default=0) >= 0
    if declared is None or "T" in declared:
        pairs = of_units(tmp_path / "with.csv", **options)
        assert pairs >= of_units(tmp_path / "without.csv", **options)


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_joined_exports_of_two_systems_are_read(tmp_path, ending):
    """One with line feeds and one with both, with a mark of byte order between them."""
    first = HEADER + b"\n".join(PLAIN_LINES[:30]) + b"\n"
    second = b"\xef\xbb\xbf" + HEADER.replace(b"\n", b"\r\n") + b"\r\n".join(PLAIN_LINES[30:])
    path = tmp_path / f"r.csv{ending}"
    with pa.output_stream(path, compression={".zst": "zstd"}.get(ending, "detect")) as file:
        file.write(first + second)
    (tmp_path / "plain.csv").write_bytes(HEADER + b"\n".join(PLAIN_LINES))
    assert of_units(path) == of_units(tmp_path / "plain.csv")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.csv", ",user,speed,ward\n0,a,1,x\n1,b,2,y\n"),
        ("r.csv", '"","user","speed","ward"\n"1","a",1,"x"\n"2","b",2,"y"\n'),
        ("r.csv", "user;speed;ward;\na;1;x;\nb;2;y;\n"),
        ("r.csv", "user;speed;ward\na;1;x;\nb;2;y;\n"),
        ("r.csv", "user,note,speed,note,NOTE,ward\na,7,1,8,9,x\nb,,2,,,y\n"),
        ("r.txt", "user\tspeed\tward\na\t1\tx\nb\t2\ty\n"),
        ("r.csv", "user,speed,ward\n\n\na,1,x\n\r\n\nb,2,y"),
    ],
)
def test_shapes_of_delimited_text_are_read(tmp_path, name, text):
    """As pandas, R and loggers write it."""
    (tmp_path / name).write_text(text, newline="")
    assert of_units(tmp_path / name) == {
        (("x", "a"), (1, 1000, 10**6)),
        (("y", "b"), (1, 2000, 4 * 10**6)),
    }


def test_notes_beside_records_are_no_records(tmp_path):
    """In a folder text files count where there is nothing else."""
    (tmp_path / "1.csv").write_text("user,speed,ward\na,1,x\nb,2,y\n")
    (tmp_path / "README.txt").write_text("These are two records.\n")
    assert len(of_units(tmp_path)) == 2
    (tmp_path / "1.csv").rename(tmp_path / "1.txt")
    (tmp_path / "README.txt").unlink()
    assert len(of_units(tmp_path)) == 2


def test_a_name_of_two_columns_is_refused_where_it_is_asked_for(tmp_path):
    """Nobody knows which of them is meant."""
    (tmp_path / "r.csv").write_text("user,speed,speed,ward\na,1,2,x\n")
    with pytest.raises(InputError, match="has two columns of one name; rename one"):
        of_units(tmp_path / "r.csv")


@pytest.mark.parametrize("encoding", ["latin-1", "windows-1252"])
def test_other_encodings_are_declared(tmp_path, encoding):
    """Refused with the line to add, and read with it; what is no text there is malformed."""
    path = tmp_path / "r.csv"
    lines = [f"u{i % 9},{i},{'äö'[i % 2]}" for i in range(40)]
    path.write_bytes("\n".join(["user,speed,ward", *lines]).encode(encoding))
    with pytest.raises(InputError, match='add encoding = "latin-1"'):
        hv.read(path, user="user", value="speed", bounds=(0, 40), cells=hv.Labels("ward"))
    (tmp_path / "utf8.csv").write_text("\n".join(["user,speed,ward", *lines]), "utf-8")
    declared = RecordFormat(encoding=encoding)
    assert of_units(path, format=declared) == of_units(tmp_path / "utf8.csv")
    if encoding == "windows-1252":
        path.write_bytes(path.read_bytes() + b"\n\x81,1,x")
        assert of_units(path, format=declared) == of_units(tmp_path / "utf8.csv")
    header = "user,speed,wärd\n".encode(encoding)
    path.write_bytes(header + "a,1,x\n".encode(encoding) * 9)
    with pytest.raises(InputError, match='add encoding = "latin-1"'):
        of_units(path)


LINE, DOCUMENT = b"a,9,x\n", b'{"user": "a", "speed": 9, "ward": "x"}\n'
LARGE = 101 * 10**6
"""Bytes, of which a hundred million are always unpacked."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "record", "filling"),
    [
        ("r.csv.gz", LINE, b" "),
        ("r.csv.zst", LINE, b"\n"),
        ("r.ndjson.gz", DOCUMENT, b" "),
        ("r.ndjson.gz", DOCUMENT, b'{"note": "' + b"y" * 2_000 + b'"}\n'),
    ],
)
def test_a_file_that_unpacks_to_far_too_much_is_refused_early(tmp_path, name, record, filling):
    """Before it is unpacked, with the line that allows it; with a cache or without."""
    path, begin = tmp_path / name, HEADER * (record is LINE)
    with pa.output_stream(path, compression="zstd" if "zst" in name else "gzip") as file:
        file.write(begin + record + filling * (LARGE // len(filling)) + b"\n" + record)
    readings = [(of_units, {}), (of_units, {"cache": tmp_path / "cache", "version": "1"})]
    for read, options in readings + [(of_anybody, {})] * (record is LINE):
        with pytest.raises(InputError, match="add max_unpacking = 10 "):
            read(path, format=RecordFormat(max_unpacking=1), **options)
    found = of_units(path, format=RecordFormat(max_unpacking=10**6))
    assert found == {(("x", "a"), (2, 18000, 2 * 9000**2))}


def test_one_encoding_is_one_request():
    """However it is spelled, and what refuses a file is in no request."""
    names = ("latin-1", "ISO-8859-1", "latin1")
    assert len({RecordFormat(encoding=name).describe() for name in names}) == 1
    assert RecordFormat(encoding="utf8").describe() == ""
    assert RecordFormat(max_unpacking=7).describe() == ""


MALFORMED = {
    "lines of one letter": HEADER + b"x\n" * 500_000,
    "a quote around line ends": HEADER + b'a,1,"' + b"\n" * 2_000_000 + b'"\n',
    "unbalanced quotes": HEADER + b'a,"1,x\n' * 200_000,
    "one line without an end": HEADER + b"y" * 60_000_000,
    "letters of no encoding": HEADER + b"a,\xff,x\n" * 100_000,
}
_MEASURED = """
import resource, sys
import hexveil as hv
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
small, large = sys.argv[1:]
def read(path):
    try:
        hv.read(path, user="user", value="speed", bounds=(0, 9), cells=hv.Labels("ward"),
                memory="100MB")
    except hv.InputError as error:
        assert "no record" in str(error), error
read(small)
base = peak()
read(large)
print((peak() - base) // 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_lines_need_no_memory(tmp_path, name):
    """Of lines that are left out nothing is kept, however many or long they are."""
    (tmp_path / "small.csv").write_bytes(HEADER + b"x\n" * 9)
    (tmp_path / "large.csv").write_bytes(MALFORMED[name])
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, str(tmp_path / "small.csv"), str(tmp_path / "large.csv")],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert int(done.stdout) < 100
