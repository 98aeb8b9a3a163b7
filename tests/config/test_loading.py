"""A run file: exact numbers, paths beside it, and one sentence for every mistake."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hexveil import InputError
from records.printed import drafted, printed

BUSES = """\
source = "buses.parquet"
[columns]
user = "bus"
value = "speed"
[values]
bounds = [0, 65]
quantum = 0.1
[cells]
resolution = 5
timeslot = "none"
[plan]
epsilon = 0.30000000000000000004
[release]
out = "map"
[ledger]
url = "book.sqlite"
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Return a run file in a folder below the current one, beside records."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data"
    folder.mkdir()
    pq.write_table(pa.table({"bus": ["a"], "speed": [1.0]}), folder / "buses.parquet")
    (folder / "other, one.csv").write_text("bus,speed\na,1\n")
    (folder / "buses.toml").write_text(BUSES)
    return folder / "buses.toml"


def test_numbers_stay_exact_and_paths_start_in_the_folder_of_the_file(file):
    """A number is handed on as it was written; source, folder and ledger lie beside the file."""
    run = drafted(file)
    assert run["plan"] == {"epsilon": "0.30000000000000000004"}
    assert run["values"] == {"quantum": "0.1", "bounds": ["0", "65"]}
    assert run["cells"]["resolution"] == "5"
    assert (run["source"], run["release"]["out"]) == ("buses.parquet", "map")
    assert run["ledger"]["url"] == "book.sqlite"


def test_paths_of_options_start_here(file):
    """A path on the command line is meant from where it is typed."""
    moved = ("--out", "there", "--ledger", "postgresql://host/db", "--set")
    run = drafted("data/buses.toml", *moved, "source=data/other, one.csv")
    assert (run["source"], run["release"]["out"]) == ("other, one.csv", "../there")
    assert run["ledger"]["url"] == "postgresql://host/db"
    run = drafted("data/buses.toml", "--out", file.anchor + "x")
    assert run["release"]["out"] == file.anchor + "x"


def test_an_option_turns_the_question_round(file):
    """Of price and target the option's one stands, and the file's other is left out."""
    target = ("--set", "plan.target_error=5%")
    assert drafted(file, *target)["plan"] == {"target_error": "5%"}
    with pytest.raises(InputError, match=r"epsilon .*target_error"):
        printed("plan", file, "--epsilon", 1, *target)
    goal = 'target_error = 2\nmethod = "joint"'
    file.write_text(BUSES.replace("epsilon = 0.30000000000000000004", goal))
    assert drafted(file, "--epsilon", 1)["plan"] == {"epsilon": "1", "method": "joint"}


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        (
            "--set=plan.objective=least",
            "^hexveil: --set plan.objective must be one of max, mean, got 'least'",
        ),
        ("--dataset=", "^hexveil: --dataset must be text"),
        ("--ledger=", "^hexveil: --ledger must be text, got ''"),
    ],
)
def test_a_wrong_option_is_not_blamed_on_the_file(file, option, sentence):
    """Of what came from an option the option is named; what stands in the file is the file's."""
    for source in (file, "records.parquet"):
        with pytest.raises(InputError, match=sentence):
            printed("plan", source, option)
    file.write_text(BUSES.replace("resolution = 5", 'resolution = "five"'))
    with pytest.raises(InputError, match=r"^hexveil: buses.toml: \[cells\] resolution "):
        printed("plan", file, "--set=plan.objective=max")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            '[columns]\nusr = "bus"',
            r"^hexveil: run.toml: \[columns\] has no field 'usr'; did you mean 'user'\?$",
        ),
        ("[colums]\n", r"^hexveil: run.toml: there is no 'colums'; did you mean 'columns'\?$"),
        ("[values]\nepsilon = 1", r"\[values\] has no field 'epsilon'; it belongs in \[plan\]\.$"),
        ('[columns]\nsource = "x"', r"'source'; it belongs at the top of the file"),
        (
            "zzzz = 1",
            r"contains no section or .* so it may hold records and is not shown; .*ledger\.$",
        ),
        ("a = {kr7731 = 1, kr7731 = 2}", r"a key appears twice \(at line 1, column \d+\)\.$"),
        ("source = 5", r"source must be text, got 5\.$"),
        ("[cells]\nresolution = 5.5", r"\[cells\] resolution must be a whole number, got 5.5\.$"),
        ("[plan]\nepsilon = true", r"\[plan\] epsilon must be a number, got True\.$"),
        ("[plan]\ntarget_error = [1, 2]", r"must be one number, or one per .*got 1, 2\.$"),
        ('[plan]\ntarget_error = "mean=1,mean=2"', r"states mean twice; use one\.$"),
        ('[plan]\ntarget_error = "mean="', r"names mean without a value\.$"),
        ("a = [", r"^.*run.toml is not valid TOML: .*\.$"),
    ],
)
def test_mistakes_are_named(tmp_path, text, sentence):
    """Each mistake is one sentence that names its section and field."""
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=sentence) as caught:
        printed("plan", path)
    assert str(caught.value).count("\n") == 1


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2", "2"),
        ("0.30000000000000000004", "0.30000000000000000004"),
        ('"5%"', "5%"),
        ('{ mean = 2.5, variance = "5%" }', {"mean": "2.5", "variance": "5%"}),
        ('"mean=2.5, variance=5%"', {"mean": "2.5", "variance": "5%"}),
        ('["mean=2.5", "variance=5%"]', {"mean": "2.5", "variance": "5%"}),
    ],
)
def test_targets_stay_exact_however_they_are_written(file, written, read):
    """One number, a percentage, or one of these for each statistic."""
    file.write_text(f'source = "buses.parquet"\n[plan]\ntarget_error = {written}\n')
    assert drafted(file)["plan"] == {"target_error": read}


def test_unreadable_files_are_named(tmp_path):
    """A missing file, a folder and a file that is not text are said to be so."""
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "latin.toml").write_bytes(b'source = "\xe9"')
    for name, sentence in (
        ("none", r"there is no file .*none\.toml"),
        ("folder", r"folder\.toml cannot be read: "),
        ("latin", r"latin\.toml is not UTF-8 text"),
    ):
        with pytest.raises(InputError, match=sentence):
            printed("plan", tmp_path / f"{name}.toml")


def test_versions_by_file_and_a_cache(file):
    """A table of versions stands in the file; the cache starts where the file or the caller is."""
    stated = '[read]\ncache = "sums"\nprivacy_unit = "user"\n'
    file.write_text(BUSES + stated + 'version = { "a.*" = "2", "*" = "1" }\n')
    unit = {"privacy_unit": "user"}
    assert drafted(file)["read"] == unit | {"cache": "sums", "version": {"a.*": "2", "*": "1"}}
    run = drafted("data/buses.toml", "--set=read.cache=other", "--set=read.version=3")
    assert run["read"] == unit | {"cache": "../other", "version": "3"}
    for wrong in ("1", '{ "a" = 1 }', '{ "a" = "" }'):
        file.write_text(f"{BUSES}[read]\nversion = {wrong}\n")
        with pytest.raises(InputError, match=r"buses.toml: \[read\] version must be text"):
            printed("plan", file)
