"""Delimited text with declared types: whatever is accepted has the value that its text has."""

import os
import random

import pyarrow as pa
import pytest

from hexveil.base.errors import InputError
from hexveil.model.cells import Cells
from hexveil.records.duckdb import validation
from hexveil.records.duckdb.expressions import instant, number
from hexveil.records.duckdb.formats import delimited_text
from hexveil.records.duckdb.formats.typed_fields import NUMBER, UTC, WALL, TypedFields
from hexveil.records.duckdb.relation import Relation
from hexveil.records.duckdb.session import Session
from hexveil.records.read import read
from hexveil.records.select import Select
from hexveil.records.sources.columns import ColumnRef, ColumnType
from hexveil.records.sources.record_format import RecordFormat

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
    """Return the texts that are given a declared type, each in a block of its own, by ending.

    Each text is there twice, so that a form is taken from one field and compared with another.
    """
    typed = TypedFields(time="x") if is_time else TypedFields(frozenset("x"))
    found = {}
    for text in texts:
        column = pa.chunked_array([[text or None] * 2], pa.string())
        for name, values in typed.typed("x", column, text.encode()).items():
            found.setdefault(name[1:], ([], []))
            found[name[1:]][0].append(text)
            found[name[1:]][1].append(values.combine_chunks()[:1])
    return {ending: (texts, pa.concat_arrays(arrays)) for ending, (texts, arrays) in found.items()}


def disagreements(texts, typed, expression):
    """Return the texts of which the engine's reading differs from the typed column.

    Also the number of texts with a value.
    """
    with Session("200MB") as session:
        session.register("fields", pa.table({"text": pa.array(texts, pa.string()), "typed": typed}))
        slow = expression(ColumnRef("text", (), ColumnType("text")))
        rows = session.rows(
            # Bit by bit: minus zero and zero are told apart.
            f"SELECT text, CAST({slow} AS VARCHAR), CAST(typed AS VARCHAR), "
            f"hash({slow}) = hash(typed) FROM fields"
        )
    differ = [(t, s, f) for t, s, f, same in rows if s != f or (s is not None and not same)]
    return differ, sum(s is not None for _, s, _, _ in rows)


def check_numbers(n_fields, seed):
    """Compare both ways for fuzzed numbers; return how many fields were accepted."""
    rng = random.Random(seed)  # noqa: S311  no secret
    texts = [*ODD_NUMBERS, *(fuzzed_number(rng) for _ in range(n_fields - len(ODD_NUMBERS)))]
    accepted_texts, typed = accepted(texts, is_time=False)[NUMBER]
    differ, n_values = disagreements(accepted_texts, typed, lambda ref: number(ref, "value", None))
    assert not differ
    return n_values


def check_times(n_fields, seed):
    """Compare both ways for fuzzed times; return how many fields of each kind were accepted."""
    rng = random.Random(seed)  # noqa: S311  no secret
    texts = [*ODD_TIMES, *(fuzzed_time(rng) for _ in range(n_fields - len(ODD_TIMES)))]
    counts = {}
    for ending, (accepted_texts, typed) in accepted(texts, is_time=True).items():
        part = {UTC: "utc", WALL: "wall"}[ending]
        differ, n_values = disagreements(
            accepted_texts, typed, lambda ref, part=part: getattr(instant(ref, ZONE, None), part)
        )
        assert not differ
        counts[part] = n_values
    return counts


def test_fuzzed_fields():
    assert check_numbers(1_500, seed=1) > 500
    assert min(check_times(1_500, seed=2).values()) > 20


@pytest.mark.slow
def test_many_fuzzed_fields():
    """10,000 fields that are always the same; `make attack` draws 100,000 new ones."""
    n_fields, seed = (100_000, random.SystemRandom().getrandbits(32)) if LONG else (10_000, 3)
    print(f"seed {seed}")  # noqa: T201  to repeat it
    assert check_numbers(n_fields * 6 // 10, seed) > n_fields // 5
    assert min(check_times(n_fields * 4 // 10, seed + 1).values()) > n_fields // 200


HEADER = "u,lat,lon,t,v,w"
CLEAN = [
    f"bus {i % 7},{52 + i / 100},21.0{i % 5},2024-02-19T{i % 24:02}:00:00Z,{i / 10},north"
    for i in range(60)
]
BAD_FIELDS = [
    "0070,52.1,21,2024-02-19T10:11:12Z,1_000,é",
    "7.0,52.1,21,2024-02-19T10:11:12+01:00,+5,north",
    " x,52.1,21,2024-02-19T10:11:12,nan,",
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


def parsed(path, *, typed, **options):
    """Return the parsed records of a file in small blocks, its rules and its counts."""
    found = {}
    validate = validation.validate_records

    def seen(session, relation, request, **more):
        records = validate(session, relation, request, **more)
        found["rows"] = session.rows(f"SELECT * FROM {validation.PARSED}")
        return records

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hexveil.records.duckdb.counting.validate_records", seen)
        for name in ("_SMALLEST_BLOCK", "_LARGEST_BLOCK"):
            patch.setattr(delimited_text, name, 1_000)
        if not typed:
            patch.setattr(Relation, "in_types", lambda relation, *_: relation)
        dataset = read(
            path, user="u", value="v", lat="lat", lon="lon", time="t", bounds=(0, 65),
            cells=Cells(8, "1h", ZONE), select=Select(min_users=1), max_bad_rows=1, max_repeats=1,
            **options,
        )  # fmt: skip
    occupancy = dataset.public.occupancy
    return sorted(map(repr, found["rows"])), dict(dataset.public.rules), occupancy.n.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_files_have_the_same_records_both_ways(name, tmp_path):
    path = tmp_path / "records.csv"
    path.write_text("\n".join(FILES[name]), "utf-8")
    if name == "header alone":
        with pytest.raises(InputError, match="no record in it"):
            parsed(str(path), typed=True)
        return
    assert parsed(str(path), typed=True) == parsed(str(path), typed=False)


def test_files_without_a_column_have_the_same_records_both_ways(tmp_path):
    """What a file lacks is null, and a file that is listed twice has each record twice."""
    (tmp_path / "1.csv").write_text("\n".join([HEADER, *CLEAN]))
    lacks = [",".join(line.split(",")[:4]) for line in (HEADER, *CLEAN)]
    (tmp_path / "2.csv").write_text("\n".join(lacks))
    files = [str(tmp_path / name) for name in ("1.csv", "2.csv", "1.csv")]
    typed, text = (parsed(files, typed=typed, repeats="keep") for typed in (True, False))
    assert typed == text
    assert len(typed[0]) == 3 * len(CLEAN)


@pytest.mark.parametrize(
    "declared",
    [{"decimal": ","}, {"unit_suffix": "km/h"}, {"time_format": "%Y-%m-%dT%H:%M:%SZ"}],
)
def test_declared_formats_are_read_from_text(declared, tmp_path):
    """What is written in another form is no number of Arrow's."""
    path = tmp_path / "records.csv"
    lines = [line.replace(",north", " km/h,north") for line in CLEAN]
    path.write_text("\n".join([HEADER.replace(",", ";"), *lines]).replace(",", ";"))
    if "unit_suffix" not in declared:
        path.write_text("\n".join([HEADER, *CLEAN]).replace(",", ";"))
    if "decimal" in declared:
        path.write_text(path.read_text().replace(".", ","))
    options = {"format": RecordFormat(**declared)}
    typed, text = (parsed(str(path), typed=typed, **options) for typed in (True, False))
    assert typed == text
    assert typed[1]["records left"] == len(CLEAN)
