"""Counts of files, and the figures' data of own records."""

import json

import pyarrow as pa
import pytest

import hexveil as hv
from hexveil_research.figures import built_in_set
from hexveil_research.papers import study_data

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


def test_a_column_of_counts_is_one_cell(tmp_path):
    """As for `hexveil evaluate --counts`."""
    (tmp_path / "m.json").write_text(json.dumps([5, 3, 1]))
    data = study_data.of_counts(tmp_path / "m.json")
    assert (data.occupancy.n_cells, data.counts.tolist()) == (1, [5, 3, 1])
    assert (data.user_means, data.private) == (None, False)


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


def test_built_in_sets_are_nobodys():
    """Each has counts; an unknown name is refused with those there are."""
    itms = built_in_set("itms")
    assert (itms.counts.sum(), itms.private) == (17166, False)
    assert built_in_set("synthetic").occupancy.n_cells == 12
    with pytest.raises(hv.InputError, match="itms, synthetic, surat"):
        built_in_set("delhi")
