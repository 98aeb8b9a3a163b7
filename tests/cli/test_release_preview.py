"""`hexveil release --dry-run`: the price and the files, and nothing done."""

import json

import pytest

from hexveil.ledger import Ledger


def state(folder):
    """Return every file of a folder with its content."""
    return {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_nothing_is_booked_or_written(here, call):
    """A dry run before the first release makes no ledger, no key and no folder."""
    before = state(here)
    said = call("release", "run.toml", "--dry-run")
    assert said.code == 0, said.err
    assert "would book 1 for the most exposed unit, in a new ledger with a budget of" in said.out
    assert "nothing was booked, drawn or written." in said.out
    assert state(here) == before


@pytest.mark.slow
def test_it_says_what_the_release_does(here, call):
    """Price and files are those of the release that follows; then it would only replay."""
    dry = json.loads(call("release", "run.toml", "--dry-run", "--json").out)
    assert (dry["dry_run"], dry["replayed"], dry["fits"]) == (True, False, True)
    done = call("release", "run.toml", "--json")
    assert done.code == 0, done.err
    # The ledger books whole parts of 10^-12, rounded up.
    booked = float(Ledger("ledger.sqlite", dataset="buses").spent)
    assert 0 <= booked - dry["would_book"] <= 1e-11
    assert dry["files"] == json.loads(done.out)["files"]
    before = state(here)
    again = call("release", "run.toml", "--out", "other", "--dry-run", "--json")
    assert json.loads(again.out)["would_book"] == 0
    assert json.loads(again.out)["replayed"]
    assert state(here) == before


@pytest.mark.slow
def test_it_foresees_refusals(here, call):
    """A price above the remaining budget is named, and a release's other refusals are its own."""
    assert call("release", "run.toml").code == 0
    spent = call("release", "run.toml", "--out", "b", "--epsilon", "1.5", "--dry-run")
    assert "so the release is refused if" in " ".join(spent.out.split())
    taken = call("release", "run.toml", "--dry-run")
    assert (taken.code, "exists, and a release is never changed" in taken.err) == (2, True)
    wrong = call(
        "release", "run.toml", "--out", "b", "--set", "catalogue.license=CC BY", "--dry-run"
    )
    assert (wrong.code, "SPDX identifier" in wrong.err) == (2, True)
    unknown = call("release", "run.toml", "--out", "b", "--dataset", "new", "--dry-run")
    assert unknown.code in (0, 2)


@pytest.mark.slow
def test_facts_for_portals_reach_the_folder(here, call):
    """Options of [catalogue] are in the manifest and in the descriptions."""
    said = call(
        "release", "run.toml", "--set", "catalogue.publisher=City of Surat",
        "--set", "catalogue.keywords=buses,speed", "--set", "catalogue.license=CC-BY-4.0",
    )  # fmt: skip
    assert said.code == 0, said.err
    manifest = json.loads((here / "map" / "manifest.json").read_text("utf-8"))
    assert manifest["catalogue"] == {
        "keywords": ["buses", "speed"], "license": "CC-BY-4.0", "publisher": "City of Surat",
    }  # fmt: skip
    node = json.loads((here / "map" / "dcat.jsonld").read_text("utf-8"))
    assert node["dct:publisher"]["foaf:name"] == "City of Surat"
    assert call("verify", "map").code == 0
