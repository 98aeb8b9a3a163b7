"""`hexveil release`: once, again, too much; and ids that are hard to keep apart."""

import json

import pyarrow.parquet as pq
import pytest

import hexveil as hv
from cli.conftest import listing


@pytest.mark.slow
def test_the_same_request_again_costs_nothing(here, call):
    """A repeated request returns the same numbers, books nothing and says so, under any title."""
    assert call("release run.toml").code == 0
    assert "GeoNames" in (here / "map" / "report.html").read_text()
    before = (here / "ledger.sqlite").read_bytes()
    for number in range(3):
        titled = (
            f"--set 'release.title=Buses <{number}>' --set 'release.subtitle=at eight'",
            "--set release.hide_geography=true",
        )
        said = call(f"release run.toml --out again-{number}", titled)
        page = (here / f"again-{number}" / "report.html").read_text()
        assert f"<h1>Buses &lt;{number}&gt;</h1>" in page
        assert "at eight" in page
        assert "GeoNames" not in page
        assert said.code == 0, said.err
        assert "at no cost" in said.out
    assert (here / "ledger.sqlite").read_bytes() == before
    first, last = (pq.read_table(here / name / "cells.parquet") for name in ("map", "again-2"))
    # Geography that is hidden names no cell.
    assert last["name"].to_pylist() == first["hexagon"].to_pylist()
    assert last.drop_columns("name").equals(first.drop_columns("name"))


def test_a_release_asks_for_ledger_and_budget(here, refuse):
    """Ledger and data set are asked for in one sentence; the budget where the ledger is new."""
    options = "--user bus --value speed --lat lat --lon lon"
    asked = ("release buses.parquet", options, "--bounds 0,65 --out map")
    said = refuse(asked)
    assert "--ledger" in said.err
    assert "--dataset" in said.err
    more = "--ledger new.sqlite --dataset b --epsilon 1 --set release.accept_noise=true"
    new = refuse(asked, more, "--resolution 6 --timeslot none")
    assert "name its budget" in new.err
    assert not (here / "map").exists()
    said = refuse("release buses.parquet", options)
    assert "--out" in said.err


@pytest.mark.slow
def test_a_release_says_that_it_opens_an_account(here, call, refuse):
    """With its budget; a second release does not, and a name much like it is refused."""
    said = call("release run.toml")
    assert "Account            opened 'buses' with a new budget: epsilon" in said.out
    assert "per vehicle, lifetime." in " ".join(said.out.split())
    again = call("release run.toml --out again")
    assert "opened" not in again.out
    other = refuse("release run.toml --out other --dataset Buses")
    assert "--set ledger.accept_similar_name=true" in other.err
    days = "--dry-run --timezone UTC --set read.privacy_unit=user-day"
    dry = refuse("release run.toml --out other", days)
    assert "protect a user, this one a user-day" in dry.err
    assert not (here / "other").exists()
    accepted = "--dataset Buses --set ledger.accept_similar_name=true --set plan.edition=2"
    assert "opened 'Buses'" in call("release run.toml --out other", accepted).out


# ---- `hexveil release --dry-run`: the price and the files, and nothing done ----


def test_nothing_is_booked_or_written(here, okay):
    """A dry run before the first release makes no ledger, no key and no folder."""
    before = listing()
    said = okay("release run.toml --dry-run")
    assert "would book 1 for the most exposed unit, in a new ledger with a budget of" in said.out
    assert "nothing was booked, drawn or written." in said.out
    assert listing() == before


@pytest.mark.slow
def test_it_says_what_the_release_does(here, call, okay):
    """Cost and folder are those of the release that follows; then it would only replay."""
    dry = json.loads(call("release run.toml --dry-run --json").out)
    assert (dry["dry_run"], dry["replayed"], dry["fits"]) == (True, False, True)
    done = okay("release run.toml --json")
    # The ledger books whole parts of 10^-12, rounded up.
    booked = float(hv.Ledger("ledger.sqlite", dataset="buses").spent)
    assert 0 <= booked - dry["would_book"] <= 1e-11
    assert dry["out"] in json.loads(done.out)["files"][0]
    before = listing()
    again = call("release run.toml --out other --dry-run --json")
    assert json.loads(again.out)["would_book"] == 0
    assert json.loads(again.out)["replayed"]
    assert listing() == before
