"""Shapes that people have, from their files to the grids of the fleet: all are the same records."""

import csv
import tomllib
from datetime import datetime

import pytest

from cli.conftest import city

ROWS = city(30).to_pylist()


def seconds(row):
    """Return the time of a record since 1970."""
    return int(datetime.fromisoformat(row["time"]).timestamp())


def without(row, *names):
    """Return a record without some fields."""
    return {name: value for name, value in row.items() if name not in names}


def text(path, rows):
    """Write records as delimited text."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def timed(factor):
    """Return records with a number as time."""
    return [{**row, "time": seconds(row) * factor} for row in ROWS]


def halved(days="%Y-%m-%d", kind=str):
    """Return records with the local time in two columns."""
    rows = []
    for row in ROWS:
        at = datetime.fromisoformat(row["time"])
        day = at.date() if kind is None else at.strftime(days)
        clock = at.time() if kind is None else at.strftime("%H:%M:%S")
        rows.append({**without(row, "time"), "date": day, "time": clock})
    return rows


# ---- drafts ----


def drafted(okay, file, *options):
    """Return the draft of a run file for some records."""
    said = okay("inspect", file, "--init", options)
    return tomllib.loads(said.out)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (ROWS, None),
        (timed(10**3), None),
        (timed(10**6), "us"),
        (timed(10**9), "ns"),
        ([{**row, "time": datetime.fromisoformat(row["time"]).strftime("%d/%m/%Y %H:%M")}
          for row in ROWS], "FILL IN"),
        ([{**row, "time": datetime.fromisoformat(row["time"]).strftime("31/%m/%Y %H:%M")}
          for row in ROWS], "%d/%m/%Y %H:%M"),
        ([{**row, "time": datetime.fromisoformat(row["time"]).strftime("%Y%m%d%H%M%S")}
          for row in ROWS], "%Y%m%d%H%M%S"),
    ],
)  # fmt: skip
def test_a_draft_writes_out_the_format_of_times(here, call, rows, expected):
    """By the public column; where day and month could be either, the holder chooses."""
    text(here / "r.csv", rows)
    assert drafted(call, "r.csv").get("format", {}).get("time_format") == expected
    # Under private presence no time is looked at.
    private = drafted(call, "r.csv", "--protect presence")
    assert "time_format" not in private.get("format", {})


def test_a_draft_pairs_dates_with_times_of_day(here, call):
    """Two columns that are one time, and their format together."""
    text(here / "r.csv", halved("%d/%m/%Y"))
    draft = drafted(call, "r.csv")
    assert draft["columns"]["time"] == ["date", "time"]
    # The first of January: either is the month.
    assert draft["format"]["time_format"] == "FILL IN"
