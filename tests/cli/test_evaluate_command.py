"""`hexveil evaluate`: simulated cells in the open, own records stamped PRIVATE."""

import json

import pytest

import hexveil as hv

SIMULATED = ("evaluate --counts counts.json --values normal:20,10 --bounds 0,65",)
OWN = ("evaluate run.toml --cell 0",)
FEW = "--trials 50"
QUICK = (FEW, "--mechanism Baseline --mechanism Levy")


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
    said = call(SIMULATED, FEW)
    assert (said.code, said.err) == (0, "")
    for name in ("Baseline()", "Levy(gamma=0.2)", "FixedQuantile(0.1, 0.9)", "OptimalClipping()"):
        assert name in said.out
    assert max(map(len, said.out.splitlines())) <= 100
    shown = said.out.split()
    assert all(loss in shown for loss in ("0.25", "0.5", "1", "2"))
    assert "PRIVATE" not in said.out
    assert names(here) == ["buses.parquet", "counts.json", "run.toml"]


def test_json_has_the_rows(here, call):
    """--json prints a row per mechanism and epsilon; a seed repeats it."""
    chosen = "--mechanism Levy(gamma=0.1) --mechanism Baseline --epsilon 0.5,1"
    arguments = (SIMULATED, FEW, chosen, "--epsilon 4 --json --seed")
    one, same, other = (call(arguments, seed).out for seed in (5, 5, 6))
    said = json.loads(one)
    assert [(row["mechanism"], row["epsilon"]) for row in said["rows"]] == [
        (name, loss) for name in ("Levy(gamma=0.1)", "Baseline()") for loss in (0.5, 1.0, 4.0)
    ]
    assert "private" not in said
    assert one == same
    assert one != other


@pytest.mark.slow
def test_own_records_are_stamped_everywhere(here, okay):
    """PRIVATE stands before and after the table; nothing is written."""
    said = okay(OWN, QUICK)
    assert said.out.startswith("PRIVATE: computed from the values of own records; not for publica")
    chosen = "Choices made from these numbers on the records to be released are not covered by the"
    assert f"{chosen} guarantee." in " ".join(said.out.split())
    assert names(here) == ["buses.parquet", "counts.json", "run.toml"]


USERS_AND_VALUES = "user,value\n" + "".join(
    f"u{user},{10 + user + repeat}\n" for user in range(12) for repeat in range(user % 3 + 1)
)
TWO_COLUMNS = ("mine.csv --user user --value value --bounds 0,65",)


def test_a_table_of_two_columns_is_one_cell(here, okay):
    """User and value alone are one cell; its result is private, and that of the same counts."""
    (here / "mine.csv").write_text(USERS_AND_VALUES)
    said = okay("evaluate", TWO_COLUMNS, QUICK, "--json")
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
