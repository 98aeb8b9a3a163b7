"""`hexveil evaluate`: simulated cells in the open, own records stamped PRIVATE."""

import csv
import io
import json
import stat
from itertools import cycle

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.cli.commands import evaluate_command as figures
from hexveil.simulation.own_cells import NOT_COVERED, STAMP, stamped
from pictures import cut_off

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
    assert said["files"] == []
    assert one == same
    assert one != other


def test_simulated_results_are_written_in_the_open(here, okay):
    """Table and figure have plain names, and no word of privacy."""
    pytest.importorskip("matplotlib")
    said = okay(SIMULATED, QUICK, "--epsilon 1,2 --out new/study")
    assert names(here / "new" / "study") == ["evaluate.csv", "evaluate.png", "evaluate.svg"]
    with (here / "new" / "study" / "evaluate.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert set(rows[0]) == {"mechanism", "epsilon", "mae", "standard_error", "trials"}
    assert b"PRIVATE" not in (here / "new" / "study" / "evaluate.svg").read_bytes()
    assert "evaluate.png" in said.out


@pytest.mark.slow
def test_own_records_are_stamped_everywhere(here, okay):
    """PRIVATE stands in file names, image and first lines, and files are the owner's alone."""
    said = okay(OWN, QUICK, "--out study")
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


# ---- Tests of the chart of errors in `hexveil.report.figure_style` ----


DRAWS = pytest.mark.usefixtures("matplotlib")


@pytest.fixture(scope="module")
def matplotlib():
    """Skip what draws where Matplotlib is not installed."""
    return pytest.importorskip("matplotlib")


NAMES = [
    'ArrayAveraging(grouping="wrap_around", cap="surrogate")',
    "FixedQuantile(0.1, 0.9)",
    *(f"Levy(gamma={n / 20})" for n in range(1, 13)),
]


def table(epsilons=(0.25, 1.0, 2.0), mechanisms=3, least=1.0):
    """Return a table as `evaluate` makes it."""
    rows = [(n, e) for n in NAMES[:mechanisms] for e in epsilons]
    mae = [least * (1 + i % 3) / e for i, (_, e) in enumerate(rows)]
    return pa.table(
        {
            "mechanism": [name for name, _ in rows],
            "epsilon": [epsilon for _, epsilon in rows],
            "mae": mae,
            "standard_error": [0.1 * error for error in mae],
            "trials": [100] * len(rows),
        }
    )


SHAPES = [
    table(),
    table(mechanisms=14),
    table(epsilons=(1.0,), mechanisms=14),
    table(epsilons=np.geomspace(0.1, 4, 16).round(3).tolist()),
    table(mechanisms=1, epsilons=(1.0,)),
    table(least=0.0),
    table(least=1e-3),
]


@DRAWS
@pytest.mark.parametrize(("rows", "private"), list(zip(SHAPES, cycle([True, False]))))
def test_nothing_is_cut_off(rows, private):
    """Every text of the figure lies within it, however many mechanisms and epsilons there are."""
    figure = figures.error_chart(
        stamped(rows) if private else rows, title="Cell x, " + "long words " * 12
    )
    assert cut_off(figure) == []


def red(png):
    """Return how many pixels are of the stamp's red."""
    pixels = pytest.importorskip("matplotlib.image").imread(io.BytesIO(png))[..., :3] * 255
    return int((np.abs(pixels - [192, 0, 0]).max(axis=-1) < 3).sum())


@DRAWS
@pytest.mark.slow
def test_a_private_image_says_so_in_red():
    """The stamp stands in both images of a private table, and in none of another."""
    plain = figures.chart_images(table(), title="Cell x")
    private = figures.chart_images(stamped(table()), title="Cell x")
    assert red(plain["png"]) == 0
    assert red(private["png"]) > 2000
    assert STAMP.encode() in private["svg"]
    assert b"PRIVATE" not in plain["svg"]
