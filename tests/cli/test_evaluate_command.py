"""`hexveil evaluate`: simulated cells in the open, own records stamped PRIVATE."""

import csv
import json
import stat
from itertools import product

import pytest

import hexveil as hv
from hexveil.mechanisms import REGISTRY
from hexveil.report import figure_style
from hexveil.simulation.own_cells import NOT_COVERED, STAMP
from user_average import UserAverage

SIMULATED = ("evaluate", "--counts", "counts.json", "--values", "normal:20,10", "--bounds", "0,65")
OWN = ("evaluate", "run.toml", "--cell", "0")
FEW = ("--trials", "50")
QUICK = (*FEW, "--mechanism", "Baseline", "--mechanism", "Levy")


@pytest.fixture
def here(here):
    """Stand beside the buses, with counts of a cell."""
    (here / "counts.json").write_text("[9, 3, 1, 1, 1, 5]")
    return here


def names(folder):
    """Return the files of a folder."""
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.slow
def test_every_mechanism_is_compared(here, call):
    """By default each mechanism is a line at four values of epsilon, within 100 letters."""
    said = call(*SIMULATED, *FEW)
    assert (said.code, said.err) == (0, "")
    for name in ("Baseline()", "Levy(gamma=0.2)", "FixedQuantile(0.1, 0.9)", "OptimalClipping()"):
        assert name in said.out
    assert max(map(len, said.out.splitlines())) <= 100
    shown = said.out.split()
    assert all(loss in shown for loss in ("0.25", "0.5", "1", "2"))
    assert "PRIVATE" not in said.out
    assert names(here) == ["buses.parquet", "counts.json", "run.toml"]


@pytest.mark.usefixtures("here")
def test_a_new_mechanism_needs_a_line_of_the_registry(call, monkeypatch):
    """The command compares it, alone and among all, without a change of its own."""
    monkeypatch.setitem(REGISTRY, "UserAverage", UserAverage)
    said = call(*SIMULATED, *FEW, "--mechanism", "UserAverage", "--epsilon", "1", "--json")
    assert [row["mechanism"] for row in json.loads(said.out)["rows"]] == ["UserAverage()"]
    assert "UserAverage()" in call(*SIMULATED, *FEW, "--epsilon", "1").out


def test_json_has_the_rows(here, call):
    """--json prints a row per mechanism and epsilon; a seed repeats it."""
    chosen = ("--mechanism", "Levy(gamma=0.1)", "--mechanism", "Baseline", "--epsilon", "0.5,1")
    arguments = (*SIMULATED, *FEW, *chosen, "--epsilon", "4", "--json", "--seed")
    one, same, other = (call(*arguments, seed).out for seed in (5, 5, 6))
    said = json.loads(one)
    assert [(row["mechanism"], row["epsilon"]) for row in said["rows"]] == [
        (name, loss) for name in ("Levy(gamma=0.1)", "Baseline()") for loss in (0.5, 1.0, 4.0)
    ]
    assert "private" not in said
    assert said["files"] == []
    assert one == same
    assert one != other


def test_simulated_results_are_written_in_the_open(here, call):
    """Table and figure have plain names, and no word of privacy."""
    pytest.importorskip("matplotlib")
    said = call(*SIMULATED, *QUICK, "--epsilon", "1,2", "--out", "new/study")
    assert said.code == 0, said.err
    assert names(here / "new" / "study") == ["evaluate.csv", "evaluate.png", "evaluate.svg"]
    with (here / "new" / "study" / "evaluate.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert set(rows[0]) == {"mechanism", "epsilon", "mae", "standard_error", "trials"}
    assert b"PRIVATE" not in (here / "new" / "study" / "evaluate.svg").read_bytes()
    assert "evaluate.png" in said.out


@pytest.mark.slow
def test_own_records_are_stamped_everywhere(here, call):
    """PRIVATE stands in file names, image and first lines, and files are the owner's alone."""
    said = call(*OWN, *QUICK, "--out", "study")
    assert said.code == 0, said.err
    assert said.out.splitlines()[0] == STAMP
    assert NOT_COVERED in " ".join(said.out.split())
    folder = here / "study"
    assert names(folder) == [f"PRIVATE-evaluate.{kind}" for kind in ("csv", "png", "svg")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    first, header, *rows = (folder / "PRIVATE-evaluate.csv").read_text().splitlines()
    assert first == f"# {STAMP} {NOT_COVERED}"
    assert header.startswith('"mechanism"')
    assert len(rows) == said.out.count("±") - 1  # one stands in the heading
    assert STAMP.encode() in (folder / "PRIVATE-evaluate.svg").read_bytes()
    assert not (here / "ledger.sqlite").exists()


def test_json_of_own_records_begins_with_the_stamp(here, call):
    """The first entry says that the rows are private, before any of them."""
    said = json.loads(call(*OWN, *QUICK, "--json").out)
    assert next(iter(said)) == "private"
    assert said["private"] == f"{STAMP} {NOT_COVERED}"


def test_a_runs_price_is_where_own_records_are_compared(here, call):
    """Without --epsilon a run file's own is used."""
    said = json.loads(call(*OWN, *QUICK, "--json").out)
    assert [row["epsilon"] for row in said["rows"]] == [1.0, 1.0]


@pytest.mark.slow
def test_own_counts_with_simulated_values_are_open(here, call):
    """With --values the records give their public counts only."""
    said = call(*OWN, *QUICK, "--values", "uniform:0,65", "--out", "study")
    assert said.code == 0, said.err
    assert "PRIVATE" not in said.out
    assert names(here / "study") == ["evaluate.csv", "evaluate.png", "evaluate.svg"]


@pytest.mark.slow
def test_a_cell_has_a_name_or_a_number(here, call):
    """A cell's name gives what its number gives."""
    told = call("evaluate", "run.toml", *QUICK)
    assert told.code == 2
    assert told.err.startswith("hexveil: --cell is needed: name one of 3 (")
    name = told.err.split("(")[1].split(",")[0]
    chosen = (*QUICK, "--json")
    assert call(*OWN, *chosen).out == call("evaluate", "run.toml", "--cell", name, *chosen).out


@pytest.mark.slow
def test_a_cell_is_named_as_the_release_shows_it(here, call):
    """The hexagon of a release's table, and its slot, give what the cell's number gives."""
    slots = ("--timeslot", "1h", "--timezone", "Asia/Kolkata", "--set", "cells.slot=pooled")
    told = call("evaluate", "run.toml", *slots, *QUICK).err
    hexagon, _, slot = told.split("(")[1].split(",")[0].partition("/")
    chosen = (*slots, *QUICK, "--json")
    numbered = call("evaluate", "run.toml", "--cell", "0", *chosen)
    assert numbered.code == 0, numbered.err
    for cell in (f"{hexagon} {slot}", f"{hexagon.upper()}/{slot}:00", f"{hexagon}, {slot}"):
        assert call("evaluate", "run.toml", "--cell", cell, *chosen).out == numbered.out
    refused = call("evaluate", "run.toml", "--cell", f"{hexagon} 03:00", *chosen)
    assert refused.code == 2
    assert f"the hexagon {hexagon} has no cell in the slot '03:00'; name one of 1 ({slot})" in (
        refused.err
    )


USERS_AND_VALUES = "user,value\n" + "".join(
    f"u{user},{10 + user + repeat}\n" for user in range(12) for repeat in range(user % 3 + 1)
)
TWO_COLUMNS = ("mine.csv", "--user", "user", "--value", "value", "--bounds", "0,65")


def test_a_table_of_two_columns_is_one_cell(here, call):
    """User and value alone are one cell; its result is private, and that of the same counts."""
    (here / "mine.csv").write_text(USERS_AND_VALUES)
    said = call("evaluate", *TWO_COLUMNS, *QUICK, "--json")
    assert said.code == 0, said.err
    told = json.loads(said.out)
    assert next(iter(told)) == "private"
    counts = [user % 3 + 1 for user in range(12)]
    means = [10 + user + (count - 1) / 2 for user, count in enumerate(counts)]
    order = sorted(range(12), key=lambda user: f"u{user}")
    table = hv.evaluation.evaluate(
        [hv.mechanisms.Baseline(), hv.mechanisms.Levy()],
        counts=[counts[i] for i in order], user_means=[means[i] for i in order],
        bounds=(0, 65), epsilons=["0.25", "0.5", 1, 2], trials=50,
    )  # fmt: skip
    assert [row["mae"] for row in told["rows"]] == pytest.approx(table["mae"].to_pylist())


@pytest.mark.slow
def test_one_cell_needs_no_name_and_has_one(here, call):
    """The switch, the name and the number all mean the one cell."""
    (here / "mine.csv").write_text(USERS_AND_VALUES)
    first, *others = (
        call("evaluate", *TWO_COLUMNS, *QUICK, "--json", *more)
        for more in ((), ("--set", "cells.one_cell=true"), ("--cell", "all"), ("--cell", "0"))
    )
    assert first.code == 0, first.err
    assert {said.out for said in others} == {first.out}
    refused = call("evaluate", *TWO_COLUMNS, "--cell", "some")
    assert refused.code == 2
    assert "there is no cell 'some'; name one of 1 (all), or its number from 0." in refused.err


@pytest.mark.slow
def test_one_cell_of_own_records_is_planned_and_released(here, call):
    """A table of user and value becomes a release of one cell, which verifies."""
    (here / "mine.csv").write_text(USERS_AND_VALUES)
    refused = call("plan", *TWO_COLUMNS, "--epsilon", "4")
    assert refused.code == 2
    assert "--set cells.one_cell=true" in refused.err
    said = call("plan", *TWO_COLUMNS, "--epsilon", "4", "--set", "cells.one_cell=true")
    assert said.code == 0, said.err
    assert "1: one cell of all records" in said.out
    said = call(
        "release", *TWO_COLUMNS, "--epsilon", "4", "--set", "cells.one_cell=true",
        "--ledger", "ledger.sqlite",
        "--dataset", "mine", "--set", "ledger.budget=5", "--out", "one",
        "--set", "release.accept_noise=true",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert call("verify", "one").code == 0
    (row,) = csv.DictReader((here / "one" / "cells.csv").read_text().splitlines())
    assert (row["cell"], row["users"]) == ("all", "12")


@pytest.mark.slow
def test_release_folders_stay_untouched(here, call):
    """Nothing of a study is written to a release's folder or below it, and nothing is read."""
    assert call("release", "run.toml", "--json").code == 0
    before = names(here / "map")
    for command, out in product((SIMULATED, OWN), ("map", "map/inner/study", "./map/../map/study")):
        said = call(*command, *QUICK, "--out", out)
        assert said.code == 2
        assert "lies in the release folder map" in said.err
        assert said.err.count("\n") == 1
        assert names(here / "map") == before


@pytest.mark.slow
def test_paths_start_where_the_command_is_called(here, call, monkeypatch):
    """A run file elsewhere does not move --counts or --out."""
    (here / "below").mkdir()
    monkeypatch.chdir(here / "below")
    said = call("evaluate", "../run.toml", "--cell", "0", *QUICK, "--out", "study")
    assert said.code == 0, said.err
    assert len(names(here / "below" / "study")) == 3


def test_without_matplotlib_there_is_a_table_only(here, call, monkeypatch):
    """A figure is refused before any work, with the line that installs it; a table needs none."""
    monkeypatch.setattr(figure_style, "find_spec", lambda _: None)
    assert call(*SIMULATED, *QUICK).code == 0
    said = call(*SIMULATED, *QUICK, "--out", "study")
    assert said.code == 2
    assert said.err == 'hexveil: a figure needs matplotlib: pip install "hexveil[plots]".\n'
    assert not (here / "study").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("evaluate",), "name counts (--counts), or records and one of their cells (--cell)"),
        ((*OWN, "--counts", "counts.json"), "--counts and records cannot be combined"),
        ((*SIMULATED, "--cell", "0"), "--counts and --cell cannot be combined"),
        (SIMULATED[:3], "--counts needs --values"),
        (SIMULATED[:5], "--counts needs --bounds"),
        ((*SIMULATED, "--mechanism", "Laplace"), "there is no 'Laplace'; available: "),
        ((*SIMULATED, "--mechanism", "exit()"), "there is no 'exit'"),
        ((*SIMULATED, "--epsilon", "0"), "epsilon must be positive"),
        ((*SIMULATED, "--epsilon", "a"), "epsilon must be a finite number"),
        ((*SIMULATED, "--epsilon", ","), "epsilons must be a list of at least one, got none"),
        ((*SIMULATED, "--trials", "1"), "trials must be a whole number of at least 2"),
        ((*SIMULATED, "--trials", "x"), "--trials"),
        ((*SIMULATED, "--values", "cauchy:1"), "values must be one of"),
        ((*SIMULATED, "--counts", "none.json"), "there is no file"),
        ((*OWN[:3], "9"), "there is no cell"),
        ((*OWN[:3], "-1"), "there is no cell"),
        ((*SIMULATED, "--out", "counts.json"), "is a file; name a folder"),
    ],
)
def test_wrong_use_is_one_sentence(here, call, arguments, message):
    """What is wrong is one line on stderr, and nothing is written."""
    said = call(arguments[0], *QUICK, *arguments[1:])
    assert said.code == 2, said.err
    assert message in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert names(here) == ["buses.parquet", "counts.json", "run.toml"]


@pytest.mark.slow
def test_the_command_runs_in_a_process_of_its_own(here, spawn):
    """As a person calls it: a table, no warning, no progress where no terminal is."""
    said = spawn(*SIMULATED, *QUICK, "--out", "study", cwd=here)
    assert (said.code, said.err) == (0, "")
    assert "Baseline()" in said.out
