"""Shapes that people have, from their files to the grids of the fleet: all are the same records."""

import csv
import tomllib
from datetime import datetime

import pytest

from cli.conftest import city

ROWS = city(30).to_pylist()


def text(path, rows):
    """Write records as delimited text."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def timed(factor):
    """Return records with a number as time, since 1970."""
    times = (int(datetime.fromisoformat(row["time"]).timestamp()) for row in ROWS)
    return [row | {"time": seconds * factor} for row, seconds in zip(ROWS, times, strict=True)]


def spelled(pattern):
    """Return records with times of another form."""
    return [row | {"time": datetime.fromisoformat(row["time"]).strftime(pattern)} for row in ROWS]


def halved(days):
    """Return records with the local time in two columns."""
    times = [datetime.fromisoformat(row["time"]) for row in ROWS]
    return [
        row | {"date": at.strftime(days), "time": at.strftime("%H:%M:%S")}
        for row, at in zip(ROWS, times, strict=True)
    ]


# ---- drafts ----


def drafted(okay, file, *options):
    """Return the draft of a run file for some records."""
    said = okay("inspect", file, "--init", options)
    return tomllib.loads(said.out)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (ROWS, None), (timed(10**3), None), (timed(10**6), "us"), (timed(10**9), "ns"),
        (spelled("%d/%m/%Y %H:%M"), "FILL IN"), (spelled("31/%m/%Y %H:%M"), "%d/%m/%Y %H:%M"),
        (spelled("%Y%m%d%H%M%S"), "%Y%m%d%H%M%S"),
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
