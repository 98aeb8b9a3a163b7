"""From a run to the arguments of the library's doors."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from hexveil import InputError
from records.printed import printed

NEEDED = ("--user=bus", "--value=speed", "--bounds=0,65")
LABELS = ("--set=cells.labels=route,hour",)
ONE_CELL = ("--set=cells.one_cell=true",)


def query(*options):
    """Return the query of a run's sums."""
    return printed("inspect", "trips", "--sql", "duckdb", *NEEDED, *options)


def test_only_what_was_given_is_handed_on():
    """Defaults stay the library's."""
    stated = ("values.quantum=0.001", "read.privacy_unit=user", "read.repeats=drop",
              "select.min_users=10")  # fmt: skip
    assert query(*LABELS) == query(*LABELS, *(f"--set={one}" for one in stated))
    assert query(*LABELS) != query(*LABELS, "--set=select.min_users=11")


def test_what_is_missing_is_asked_for_at_once():
    """All that a door needs is named in one sentence, with section and option."""
    with pytest.raises(InputError) as caught:
        printed("inspect", "trips", "--timeslot", "none")
    assert str(caught.value) == (
        "hexveil: user (in [columns], or --user), value (in [columns], or --value), "
        "bounds (in [values], or --bounds) are needed; hexveil inspect FILE --init > run.toml "
        "drafts a run file that names them.\n"
    )


@pytest.mark.parametrize(("cells", "grid"), [(LABELS, "'route', 'hour'"), (ONE_CELL, "OneCell()")])
def test_labels_and_one_cell_replace_the_place(cells, grid):
    """They need no column of a place, keep the clock of hours, and clash in one sentence."""
    text = query(*cells, "--time=at", "--timezone=Asia/Kolkata", "--set=select.hours=7")
    assert f"hv.{grid}" in text or f"hv.Labels({grid})" in text
    assert "'Asia/Kolkata'" in text
    name = "labels" if cells is LABELS else "one_cell"
    with pytest.raises(InputError, match=f"{name} and resolution cannot be combined"):
        query(*cells, "--resolution=5")
    with pytest.raises(InputError, match="one_cell and labels cannot be combined"):
        query(*LABELS, *ONE_CELL)


def test_ledger_arguments(tmp_path):
    """What is named is handed on; a missing data set is asked for, a budget may be the ledger's."""
    records, book = tmp_path / "r.parquet", tmp_path / "book.sqlite"
    rows = [{"bus": f"b{i % 30}", "speed": i % 60, "route": "x", "hour": "7"} for i in range(90)]
    pq.write_table(pa.Table.from_pylist(rows), records)
    run = (*NEEDED, *LABELS, "--epsilon=1", "--set=release.accept_noise=true", "--ledger", book)
    with pytest.raises(InputError, match=r"dataset \(in \[ledger\], or --dataset\) is needed"):
        printed("release", records, *run, "--out", tmp_path / "a")
    known = (*run, "--dataset=d")
    printed("release", records, *known, "--set=ledger.budget=1.1", "--out", tmp_path / "b")
    printed("release", records, *known, "--out", tmp_path / "c")
    assert hv.Ledger(book, dataset="d").remaining * 10 == 1
