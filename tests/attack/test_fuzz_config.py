"""Run files of any shape: a run whose arguments the library takes, or one clear sentence."""

import datetime as dt
import json
import math
import string
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import hexveil as hv
from attack import fuzz_bytes, fuzz_oracle
from examples import examples
from hexveil import config
from hexveil.base.errors import InputError, StorageError
from hexveil.cli import app
from hexveil.config import arguments
from hexveil.config.fields import FIELDS

pytestmark = pytest.mark.slow

MANY = 10_000 if fuzz_bytes.LONG else 200
RECORDS = pa.table(
    {
        "bus": [f"b{number % 12}" for number in range(60)],
        "speed": [float(number) for number in range(60)],
        "route": [f"R{number % 3}" for number in range(60)],
        "time": [1_700_000_000 + 700 * number for number in range(60)],
        "lat": [21.1] * 60,
        "lon": [72.8] * 60,
    }
)
GOOD = {
    ("columns", "user"): "bus",
    ("columns", "value"): "speed",
    ("columns", "time"): "time",
    ("columns", "lat"): "lat",
    ("columns", "lon"): "lon",
    ("values", "bounds"): [0, 60],
    ("cells", "timezone"): "Europe/Warsaw",
    ("plan", "epsilon"): Decimal("1.5"),
}
WORDS = ["mean", "variance", "sd", "0,65", "7-9,17", "user-day", "keep", "1h", "none", "1GB", "5%"]
WORDS += ["Europe/Warsaw", "per-cell", "clip-user", "sum", "max", "2024-02-19", "inf", "nan", "-1"]
WORDS += ["\x00", "", " ", ",", "=", "mean=", "mean=2,mean=3", "%", "1e400", "1/3", "1/0", "1_0"]
WORDS += ["9" * 5000, "\u0661", "\u202e", "../..", "route", "0x10", "1e5GB", "9999999TB", "1d"]


class Token(str):
    """What stands in a file as it is: a number too long to be one here."""

    __slots__ = ()


LONG = Token("0x" + "f" * 4400)
TAME = string.ascii_letters + string.digits + " ,.-_=%/"
texts = st.one_of(st.sampled_from(WORDS), st.text(st.characters(codec="utf-8"), max_size=8))
numbers = st.one_of(
    st.integers(-3, 100),
    st.sampled_from([10**18, -(10**25), 2**63, LONG, 0]),
    st.decimals(-1000, 1000, places=3),
    st.sampled_from([Decimal(t) for t in ("1e-400", "1e400", "-1e9999", "inf", "nan", "1e-30")]),
)
moments = st.one_of(st.dates(), st.times(), st.datetimes(), st.just(dt.date(2024, 2, 19)))
plain = st.one_of(texts, numbers, st.booleans(), moments)
values = st.recursive(
    plain,
    lambda inside: st.one_of(
        st.lists(inside, max_size=4), st.dictionaries(texts, inside, max_size=3)
    ),
    max_leaves=6,
)
keys = st.one_of(st.sampled_from([*FIELDS, ("", "sources"), ("colums", "user")]))
fields = st.dictionaries(keys, values, max_size=6)


def toml(fields):
    """Return fields by (section, name) as a TOML file."""
    lines = [f"{json.dumps(name)} = {written(v)}" for (s, name), v in fields.items() if not s]
    for section in dict.fromkeys(section for section, _ in fields if section):
        lines.append(f"[{json.dumps(section)}]")
        lines += [f"{name} = {written(v)}" for (s, name), v in fields.items() if s == section]
    return "\n".join(lines)


def written(value):
    """Return a value in TOML."""
    if isinstance(value, Token):
        return str(value)
    if isinstance(value, str):
        return f'"{"".join(c if c in TAME else f"{chr(92)}U{ord(c):08x}" for c in value)}"'
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    if isinstance(value, dict):
        inside = ", ".join(f"{written(name)} = {written(one)}" for name, one in value.items())
        return "{" + inside + "}"
    if isinstance(value, Decimal):
        return decimal(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value).lower()


def decimal(value):
    if not value.is_finite():
        return str(value).lower().replace("infinity", "inf")
    text = f"{value:e}"
    return text if "." in text else text.replace("e", ".0e")


def or_sentence(function, *given, **options):
    """Return what a function returns, or None if it refuses in one clear sentence."""
    try:
        return function(*given, **options)
    except (InputError, StorageError) as error:
        fuzz_oracle.checked_error(error)
        return None


def tried(run):
    """Hand a run to the library's doors as the command does, except that nothing is spent."""
    read = or_sentence(arguments.read_arguments, run, hv.read)
    plan = or_sentence(arguments.plan_arguments, run)
    or_sentence(arguments.ledger_arguments, run, hv.Ledger)
    or_sentence(arguments.source, run)
    dataset = None if read is None else or_sentence(hv.read, RECORDS, **read)
    if dataset is None or plan is None:
        return
    made = or_sentence(hv.plan, dataset, **plan)
    assert made is None or 0 <= made.epsilon < math.inf


@examples(MANY)
@given(fields)
@example({("plan", "epsilon"): LONG})
@example({("cells", "resolution"): LONG})
@example({("read", "memory"): "9999999999999999999TB"})
@example({("select", "top"): 10**25})
def test_any_fields_are_a_run_or_a_sentence_that_names_them(tmp_path_factory, fields):
    """Whatever the fields are: a run, or an InputError that names the file and what is wrong."""
    file = tmp_path_factory.getbasetemp() / "any-run.toml"
    file.write_text(toml(fields), "utf-8")
    try:
        run = config.load(str(file))
    except InputError as error:
        fuzz_oracle.checked_error(error, "any-run.toml")
        fuzz_oracle.checked_error(error, *(name for key in fields for name in key if name))
    else:
        tried(run)


@examples(MANY // 2)
@given(st.dictionaries(st.sampled_from([*FIELDS]), values, max_size=2))
def test_good_runs_with_odd_fields_reach_the_library_or_a_sentence(tmp_path_factory, odd):
    """A run that works, with two fields replaced, works or is refused in one clear sentence."""
    file = tmp_path_factory.getbasetemp() / "odd-run.toml"
    file.write_text(toml({**GOOD, **odd}), "utf-8")
    run = or_sentence(config.load, str(file))
    if run is not None:
        tried(run)


@examples(MANY)
@given(
    st.one_of(
        st.binary(max_size=60), st.text(max_size=60).map(lambda t: t.encode("utf-8", "replace"))
    )
)
def test_any_bytes_are_a_run_or_a_sentence(tmp_path_factory, content):
    """Whatever a file holds: a run, or one sentence that names the file."""
    file = tmp_path_factory.getbasetemp() / "bytes.toml"
    file.write_bytes(content)
    try:
        config.load(str(file))
    except InputError as error:
        fuzz_oracle.checked_error(error, "bytes.toml")


DEEP = 3000
HARD = {
    "nested arrays": "x = " + "[" * DEEP + "]" * DEEP,
    "nested tables": "x = " + "{a=" * DEEP + "1" + "}" * DEEP,
    "dotted keys": "a" + ".a" * DEEP + " = 1",
    "a long number": "[plan]\nepsilon = " + "9" * 5000,
    "a long hexadecimal": "[plan]\nepsilon = 0x" + "f" * 5000,
    "an exponent beyond decimals": "[plan]\nepsilon = 1e99999999999999999999",
    "a null character": 'source = "a\\u0000.csv"',
    "a null in a pattern": 'source = "**/a\\u0000*.csv"',
    "a null in out": '[release]\nout = "a\\u0000"',
    "a long name": f'source = "{"a" * 5000}.csv"',
    "a surrogate": 'source = "\\ud800.csv"',
    "half an address": '[ledger]\nurl = "postgresql://u:p@[::1"',
    "a section that is a list": "[[columns]]\nuser = 1",
    "a section that is a number": "columns = 1",
    "the file itself": 'source = "run.toml"',
}


@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
@pytest.mark.parametrize("command", ["inspect", "release"])
def test_hard_run_files_end_in_one_sentence(tmp_path, monkeypatch, command, text):
    """Through the command: exit 2 and a sentence, never an unexpected error."""
    monkeypatch.chdir(tmp_path)
    pa.parquet.write_table(RECORDS, tmp_path / "buses.parquet")
    rest = "" if "source" in text else 'source = "buses.parquet"\n'
    (tmp_path / "run.toml").write_text(rest + text, "utf-8")
    code, failure = app.run([command, "run.toml"])
    assert code == 2
    fuzz_oracle.checked_error(InputError(failure.message))
    assert not (tmp_path / "ledger.sqlite").exists()
