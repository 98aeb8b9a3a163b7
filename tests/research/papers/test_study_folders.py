"""Tests of `hexveil_research.papers.study_folders`."""

from dataclasses import replace

import numpy as np
import pytest

import hexveil as hv
from hexveil_research.papers import study_data, study_folders
from hexveil_research.papers.study import Outcome, Setting, Study, select_studies
from hexveil_research.papers.study_data import StudyData

COUNTS = StudyData("m.csv", hv.Occupancy.from_dense([[3, 1], [2, 2]]), number=1)
MEANS = replace(COUNTS, means=np.ones(4), private=True)


def study(name="iot:fig3", **more):
    """Return a study that is never made here."""
    return Study(name, "", "", lambda _: Outcome(), **more)


def written(out, **more):
    """Write a study that found nothing."""
    study_folders.write(out, study(**more), Setting(), Outcome(), {})


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
    written(tmp_path, **more)
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


STUDIES = tuple(map(study, ("iot:fig1", "iot:fig10", "wc:fig1")))


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


# ---- Counts of files ----


ROWS = "cell,user,n\nb,x,4\na,x,9\nb,z,7\na,y,2\nb,w,1\n"


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
