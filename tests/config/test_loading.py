"""A run file: exact numbers, paths beside it, and one sentence for every mistake."""

import pytest

from hexveil import InputError
from hexveil.config import load

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
def file(tmp_path):
    path = tmp_path / "buses.toml"
    path.write_text(BUSES)
    return path


def test_numbers_stay_exact(file):
    """A number of the file is handed on as it was written."""
    run = load(str(file))
    assert run.plan.epsilon == "0.30000000000000000004"
    assert run.values.quantum == "0.1"
    assert run.values.bounds == ("0", "65")
    assert run.cells.resolution == 5


def test_paths_start_in_the_folder_of_the_file(file):
    """Source, folder and ledger of a file lie beside it; where it lies is no part of the run."""
    run = load(str(file))
    assert run.folder == file.parent
    assert run.source == ("buses.parquet",)
    assert run.release.out == "map"
    assert run.ledger.url == "book.sqlite"


def test_paths_of_options_start_here(file, monkeypatch):
    """A path on the command line is meant from where it is typed."""
    monkeypatch.chdir(file.parent.parent)
    moved = {("release", "out"): "there", ("ledger", "url"): "postgresql://host/db"}
    run = load(str(file), moved | {("", "source"): f"{file.parent.name}/other, one.csv"})
    assert (run.folder / run.release.out).resolve() == (file.parent.parent / "there").resolve()
    assert run.source == ("other, one.csv",)
    assert run.ledger.url == "postgresql://host/db"
    assert load(str(file), {("release", "out"): "/tmp/x"}).release.out == "/tmp/x"  # noqa: S108  a name


def test_an_option_turns_the_question_round(file, tmp_path):
    """Of price and target the option's one stands, and the file's other is left out."""
    run = load(str(file), {("plan", "target_error"): "5%"})
    assert run.plan.explicit_fields() == {"target_error": "5%"}
    (tmp_path / "goal.toml").write_text('[plan]\ntarget_error = 2\nmethod = "joint"\n')
    run = load(str(tmp_path / "goal.toml"), {("plan", "epsilon"): "1"})
    assert run.plan.explicit_fields() == {"epsilon": "1", "method": "joint"}
    both = {("plan", "epsilon"): "1", ("plan", "target_error"): "2"}
    assert load(str(file), both).plan.explicit_fields() == {"epsilon": "1", "target_error": "2"}


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        (
            ("plan", "objective"),
            "least",
            "^--set plan.objective must be one of max, mean, got 'least'",
        ),
        (("ledger", "url"), 7, "^--ledger "),
    ],
)
def test_a_wrong_option_is_not_blamed_on_the_file(file, place, value, sentence):
    """Of what came from an option the option is named; what stands in the file is the file's."""
    for source in (str(file), "records.parquet"):
        with pytest.raises(InputError, match=sentence):
            load(source, {place: value})
    file.write_text(BUSES.replace("resolution = 5", 'resolution = "five"'))
    with pytest.raises(InputError, match=r"^buses.toml: \[cells\] resolution "):
        load(str(file), {("plan", "objective"): "max"})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            '[columns]\nusr = "bus"',
            r"^run.toml: \[columns\] has no field 'usr'; did you mean 'user'\?$",
        ),
        ("[colums]\n", r"^run.toml: there is no 'colums'; did you mean 'columns'\?$"),
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
        load(str(path))
    assert "\n" not in str(caught.value)


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
def test_targets_stay_exact_however_they_are_written(tmp_path, written, read):
    """One number, a percentage, or one of these for each statistic."""
    (tmp_path / "run.toml").write_text(f"[plan]\ntarget_error = {written}\n")
    assert load(str(tmp_path / "run.toml")).plan.target_error == read


def test_unreadable_files_are_named(tmp_path):
    """A missing file, a folder and a file that is not text are said to be so."""
    with pytest.raises(InputError, match=r"there is no file .*none\.toml"):
        load(str(tmp_path / "none.toml"))
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(InputError, match=r"folder\.toml cannot be read: "):
        load(str(tmp_path / "folder.toml"))
    (tmp_path / "latin.toml").write_bytes(b'source = "\xe9"')
    with pytest.raises(InputError, match=r"latin\.toml is not UTF-8 text"):
        load(str(tmp_path / "latin.toml"))


def test_versions_by_file_and_a_cache(file, tmp_path, monkeypatch):
    """A table of versions stands in the file; the cache starts where the file or the caller is."""
    file.write_text(BUSES + '[read]\ncache = "sums"\nversion = { "a.*" = "2", "*" = "1" }\n')
    run = load(str(file))
    assert run.read.explicit_fields() == {"cache": "sums", "version": {"a.*": "2", "*": "1"}}
    monkeypatch.chdir(tmp_path.parent)
    run = load(str(file), {("read", "cache"): "other", ("read", "version"): "3"})
    assert run.read.explicit_fields() == {"cache": "../other", "version": "3"}
    for wrong in ("1", '{ "a" = 1 }', '{ "a" = "" }'):
        file.write_text(BUSES + f"[read]\nversion = {wrong}\n")
        with pytest.raises(InputError, match=r"^buses.toml: \[read\] version must be text"):
            load(str(file))
