"""Run files of any shape: a run whose arguments the library takes, or one clear sentence."""

import json
import math

import pyarrow as pa
import pyarrow.parquet
import pytest

import hexveil as hv
from attack import fuzz_oracle
from hexveil import config
from hexveil.base.errors import InputError, StorageError
from hexveil.cli import app
from hexveil.config import arguments
from hexveil.config.fields import FIELDS

pytestmark = pytest.mark.slow

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
    "columns": {
        "user": '"bus"', "value": '"speed"', "time": '"time"', "lat": '"lat"', "lon": '"lon"',
    },
    "plan": {"epsilon": "1.5"},
}  # fmt: skip
"""Fields of a run that works, as they stand in a file."""
ODD = ("0", "-1", "1.5", "true", "inf", "nan", "1e400", "-1e9999", "1e-400", "9223372036854775808")
ODD += ("1000000000000000000", "0x" + "f" * 4400, "[]", "[[]]", "[0, 65]", '["a", 1]', "{}")
ODD += ("{ mean = 2 }", "{ a = [{}] }", "2024-02-19", "2024-02-19T10:00:00Z", "10:00:00")
ODD += tuple(
    json.dumps(word)
    for word in (
        "", " ", ",", "=", "%", "mean", "mean=2,mean=3", "0,65", "7-9,17", "user-day", "1h", "1GB",
        "9999999TB", "1e5GB", "5%", "Europe/Warsaw", "per-cell", "1/3", "1/0", "1_0", "9" * 5000,
        "../..", "route", "a\x00", "\u0661", "\u202e", "x" * 300,
    )
)  # fmt: skip
"""Values of any type, as they stand in a file."""


def toml(section, name, value):
    """Return the run that works with one field replaced or added."""
    fields = {key: dict(own) for key, own in GOOD.items()}
    fields.setdefault(section, {})[name] = value
    lines = [f"{key} = {one}" for key, one in fields.pop("", {}).items()]
    for key, own in fields.items():
        lines += [f"[{key}]", *(f"{field} = {one}" for field, one in own.items())]
    return "\n".join(lines)


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


FIELD_NAMES = [*FIELDS, ("", "sources"), ("colums", "user")]


@pytest.mark.parametrize("field", FIELD_NAMES, ids=lambda one: ".".join(filter(None, one)))
def test_any_field_is_a_run_or_a_sentence_that_names_it(tmp_path, field):
    """Every field with odd values of every type: a run, or what names the file and the field."""
    file = tmp_path / "any-run.toml"
    for value in ODD:
        file.write_text(toml(*field, value), "utf-8")
        try:
            run = config.load(str(file))
        except InputError as error:
            fuzz_oracle.checked_error(error, "any-run.toml")
            fuzz_oracle.checked_error(error, *filter(None, field))
            continue
        tried(run)


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
