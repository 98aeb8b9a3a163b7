"""Tests of `hexveil_research.papers.study_folders`."""

import csv
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import hexveil as hv
from hexveil_research.papers import study_data, study_folders
from hexveil_research.papers.study import (
    Claim,
    Outcome,
    Panel,
    Setting,
    Study,
    line,
    select_studies,
)
from hexveil_research.papers.study_data import StudyData

COUNTS = StudyData("m.csv", hv.Occupancy.from_dense([[3, 1], [2, 2]]), number=1)
MEANS = replace(COUNTS, means=np.ones(4), private=True)
HOLDS = Claim("IOT", "Lemma III.2", 'the median, "med", gains half', "2.9 of 5.3", holds=True)
FAILS = Claim("WC", "eq. (12)", "it is the optimum", "1.2, not 0.9", holds=False)


def study(name="iot:fig3", **more):
    """Return a study that is never made here."""
    return Study(name, "IOT, figure 3", "Sample scaling", lambda _: Outcome(), **more)


def outcome(*claims):
    """Return a figure of two lines, one with bars, and claims."""
    bars = line("Levy", [0.5, 1], [4, 2], low=[3, 1], high=[5, 3])
    plain = line("constant", [0.5, 1], [6, 6], whose="reference")
    return Outcome((Panel("cell", "Epsilon", "Error", (bars, plain)),), claims)


def written(out, name="iot:fig3", *claims, setting=None, **more):
    """Write a study and return its folder."""
    what = setting or Setting()
    images = {"png": b"1", "svg": b"2"}
    return study_folders.write(out, study(name, **more), what, outcome(*claims), images)


def test_the_data_are_the_figures(tmp_path):
    """A row per point, its ends empty where the line has none."""
    folder = written(tmp_path)
    table = pyarrow.csv.read_csv(folder / "iot-fig3.csv").to_pylist()
    first = {"panel": "cell", "line": "Levy", "whose": "paper", "x": 0.5, "y": 4}
    assert table[0] == first | {"low": 3, "high": 5}
    assert [row["low"] for row in table] == [3, 1, None, None]
    assert len(table) == 4


def test_claims_are_found_again(tmp_path):
    """What is written is read as it was, and claims.csv has a row for each."""
    written(tmp_path, "iot:fig3", HOLDS)
    written(tmp_path, "wc:fig1", FAILS, HOLDS)
    both = [study("iot:fig3"), study("wc:fig1"), study("rw:fig1")]
    assert study_folders.claims(tmp_path, both[1]) == (FAILS, HOLDS)
    assert study_folders.claims(tmp_path, both[2]) == ()
    with study_folders.write_claims(tmp_path, both).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["study"], row["verdict"]) for row in rows] == [
        ("iot:fig3", "holds"), ("wc:fig1", "fails"), ("wc:fig1", "holds"),
    ]  # fmt: skip
    assert rows[0]["claim"] == HOLDS.says
    assert rows[0].keys() >= {"paper", "place", "measured", "reading"}


@pytest.mark.parametrize(
    ("more", "other", "same"),
    [
        ({}, Setting(trials=100), False),
        ({}, Setting(seed=1), False),
        ({"draws": False}, Setting(trials=100, seed=1), True),
        ({}, Setting(epsilons=("1",)), False),
        ({"draws": False}, Setting(gamma=4), False),
        ({"altered": True}, Setting(data=COUNTS), False),
        ({"altered": True}, Setting(data=replace(COUNTS, number=0)), False),
    ],
)
def test_it_is_made_again_where_it_could_differ(tmp_path, more, other, same):
    """Only what a study depends on makes it stale."""
    written(tmp_path, setting=Setting(), **more)
    assert study_folders.is_made(tmp_path, study(**more), Setting())
    assert study_folders.is_made(tmp_path, study(**more), other) == same


def test_a_folder_of_something_else_stays(tmp_path):
    """A reader's own folder of that name is not deleted."""
    (tmp_path / "iot-fig3").mkdir()
    (tmp_path / "iot-fig3" / "thesis.txt").write_text("mine")
    with pytest.raises(hv.InputError, match="not a study's folder"):
        written(tmp_path)
    assert (tmp_path / "iot-fig3" / "thesis.txt").read_text() == "mine"


# ---- Tests of `hexveil_research.papers.study` ----


STUDIES = tuple(
    Study(name, "", "", lambda _: Outcome()) for name in ("iot:fig1", "iot:fig10", "wc:fig1")
)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["iot"], ["iot:fig1", "iot:fig10"]),
        (["iot:fig1"], ["iot:fig1"]),
        (["wc", "iot:fig10", "wc:fig1"], ["wc:fig1", "iot:fig10"]),
    ],
)
def test_studies_are_chosen_by_name_or_paper(names, found):
    """A name means itself alone, a paper all of its studies, and none comes twice."""
    assert [one.name for one in select_studies(STUDIES, names)] == found


# ---- Counts of files, and the figures' data of own records ----


ROWS = "cell,user,n\nb,x,4\na,x,9\nb,z,7\na,y,2\nb,w,1\n"


def records():
    """Return records of four users in two cells, read."""
    table = pa.table(
        {
            "bus": ["p", "p", "q", "r", "p", "s", "s"],
            "speed": [10.0, 20.0, 30.0, 40.0, 50.0, 0.0, 65.0],
            "line": ["17", "17", "17", "17", "18", "18", "18"],
        }
    )
    return hv.read(
        table, user="bus", value="speed", bounds=(0, 65), cells=hv.Labels("line"),
        repeats="keep", select=hv.Select(min_users=1),
    )  # fmt: skip


def test_columns_of_cells_and_users_are_several_cells(tmp_path):
    """The one cell is that of most users; equal pairs are added up."""
    file = tmp_path / "m.csv"
    file.write_text(ROWS + "b,w,2\n")
    data = study_data.of_counts(file)
    assert (data.occupancy.n_cells, data.occupancy.n_users) == (2, 4)
    assert sorted(data.counts.tolist()) == [3, 4, 7]


@pytest.mark.parametrize("row", ["b,q,0", "b,q,1.5", "b,q,", "b,,2x"])
def test_damaged_counts_are_refused_without_quoting(tmp_path, row):
    """The message names the file and the shape."""
    file = tmp_path / "m.csv"
    file.write_text(ROWS + row + "\n")
    with pytest.raises(hv.InputError, match=r"m\.csv") as error:
        study_data.of_counts(file)
    assert "q" not in str(error.value).replace(str(file), "")


@pytest.mark.slow
def test_records_have_their_means():
    """Counts and means of the cell of most users, and of the one that is named."""
    data = study_data.of_records(records(), "buses")
    assert data.private
    assert data.counts.tolist() == [2, 1, 1]
    assert data.user_means == pytest.approx([15, 30, 40], abs=1e-3)
    named = study_data.of_records(records(), "buses", "18")
    assert named.user_means == pytest.approx([50, 32.5], abs=1e-3)
    assert "15" not in repr(data)
    with pytest.raises(hv.InputError, match="no cell"):
        study_data.of_records(records(), "buses", "19")
