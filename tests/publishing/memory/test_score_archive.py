"""An archive whose quantiles and shares remember: mean scores of cells, from published numbers."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from hexveil import InputError
from hexveil.cli import main
from hexveil.learning.remembering import estimate_day, remember
from publishing.memory import archives

KINDS = {"ranks": ["p50", "p85", "share<10"], "indicator": ["share<10"], "beside": ["mean", "p50"]}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    """Return a folder with three days of an invented city, and a run file for each kind."""
    folder = tmp_path_factory.mktemp("scores")
    assert main([*archives.SIMULATE, "--out", str(folder / "city.parquet")]) == 0
    for kind, statistics in KINDS.items():
        text = archives.RUN.replace("[plan]", f"[plan]\nstatistics = {json.dumps(statistics)}")
        text = text.replace('"maps"', f'"{kind}"').replace('"buses"', f'"{kind}"')
        (folder / f"{kind}.toml").write_text(text)
    return folder


@pytest.fixture(params=KINDS)
def published(request, city, tmp_path, monkeypatch):
    """Return the kind, and a copy of its archive of three days in a folder of its own."""
    kind = request.param
    archives.enter_copy(city, tmp_path, monkeypatch, f"{kind}.toml", kind)
    return kind, Path(kind, kind)


@pytest.mark.parametrize(("statistic", "epsilon"), [("p50", "3"), ("share<10", "0.8")])
def test_a_day_is_judged_by_what_its_scores_remember(
    city, tmp_path, monkeypatch, statistic, epsilon
):
    """A refusal of a quantile or a share names the day from which a series is usable."""
    monkeypatch.chdir(tmp_path)
    text = archives.RUN.replace("city.parquet", str(city / "city.parquet"))
    text = text.replace("epsilon = 3", f'epsilon = {epsilon}\nstatistics = ["{statistic}"]')
    archives.check_judged_in_series(text, usable=3)


def test_folders_verify_and_are_all_that_scores_are_made_of(published):
    """Later days pay for no shape and no range; what their folders state is what days give."""
    kind, place = published
    places = archives.folders(place)
    for folder in places:
        hv.verify(folder)
    first, _, last = map(archives.component, places)
    names = [[one["name"] for one in stated["plan"]["components"]] for stated in (first, last)]
    assert ("shape" in names[0]) == (kind != "indicator")
    assert "shape" not in names[1]
    assert [step["step"] for step in last["scores"]["plan"]["privacy_steps"]] == ["cells"]
    assert first["memory"].get("shape") == last["memory"].get("shape")
    releases = [archives.earlier(folder) for folder in places]
    assert last["scores"]["plan"]["request"]["history"] == [
        one.identity["sha256"] for one in releases[:2]
    ]
    given = remember([one.published for one in releases], releases[1].deviations)
    scores = estimate_day(releases[-1].published, given.forecast)
    table = pq.read_table(places[-1] / "cells.parquet")
    if kind == "indicator":
        assert table["share_below_10_estimate"].to_numpy() == pytest.approx(scores.estimate)
    else:
        # A cell of higher ranks has a higher median.
        order = np.argsort(scores.estimate)
        if kind == "ranks":
            assert (np.diff(table["p50_estimate"].to_numpy()[order]) > -1e-6).all()


def test_forged_memories_are_found(published):
    """Quantiles and shares that are not those of forecast, likelihood and shape are a problem."""
    kind, place = published
    folder = archives.folders(place)[2]
    if kind == "ranks":
        manifest = folder / "manifest.json"
        text = manifest.read_bytes()
        stated = json.loads(text)
        shares = stated["components"][0]["memory"]["shape"]["shares"]
        shares[:] = shares[::-1]
        archives.rewrite(manifest, (json.dumps(stated, indent=2) + "\n").encode())
        with pytest.raises(InputError, match=r"is not that of memory\.npy"):
            hv.verify(folder)
        manifest.write_bytes(text)
    archives.forge(folder, archives.raise_forecast)
    with pytest.raises(InputError, match=r"is not that of memory\.npy"):
        hv.verify(folder)


def test_a_restored_day_has_the_same_bytes(published):
    """A folder that is lost is made again from the releases that it rested on."""
    kind, place = published
    whole = archives.contents(archives.folders(place)[-1])
    (archives.folders(place)[-1] / "manifest.json").unlink()
    assert hv.publish(f"{kind}.toml", archives.DAYS[-1])[0].state == "restored"
    assert archives.contents(archives.folders(place)[-1]) == whole


def test_values_of_earlier_days_enter_through_their_releases_alone(published):
    """With other values on all days the last day's request and plan are the same."""
    kind, place = published
    archives.check_values_enter_by_releases_alone(place, f"{kind}.toml")
