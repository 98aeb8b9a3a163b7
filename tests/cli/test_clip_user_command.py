"""CLIP-USER on own records, as printed and improved: plan, release, verify."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PLACES = ((21.10, 72.75), (21.20, 72.80), (21.25, 72.85))
BOTH = "--set plan.method=clip-user --set plan.statistics=mean,variance"
PRINTED = (BOTH, "--set plan.clip_user=printed --set")


def counts(user):
    """Return a bus's records by place: two buses are in all, and a few report often."""
    places = user < 90, user < 60, user < 2 or user >= 90
    often = 9 if user < 4 else 1 + user % 3
    return [
        (often, 1 + (user + 1) % 3, 1 + (user + 2) % 3)[p] * here for p, here in enumerate(places)
    ]


@pytest.fixture
def buses(here):
    """Stand in a folder with buses of which a few are in all places."""
    rows = [
        {
            "bus": f"{user:03d}", "lat": lat, "lon": lon, "speed": float((7 * user + minute) % 60),
            "time": f"2022-01-01T{10 + place}:{minute:02d}:00+05:30",
        }
        for user in range(98)
        for place, (lat, lon) in enumerate(PLACES)
        for minute in range(counts(user)[place])
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), here / "buses.parquet")
    return here


@pytest.mark.slow
def test_suppressions_of_the_halted_stage_stay_or_are_undone(buses, call):
    """As printed they stay; undone, the paper's loss is the same and the exact one is not."""
    kept, undone = (
        call(
            "plan run.toml",
            PRINTED,
            f"plan.cell_epsilon=4 --no-grids --set plan.unfinished_stage={word}",
        ).out
        for word in ("keep", "undo")
    )
    assert "Suppressions of the halted stage stay." in " ".join(kept.split())
    assert "Suppressions of the halted stage are undone." in " ".join(undone.split())
    assert all("The paper's loss is 12" in " ".join(text.split()) for text in (kept, undone))
    assert "at most 9.42." in " ".join(kept.split())
    assert "at most 10.7." in " ".join(undone.split())


@pytest.mark.slow
def test_algorithm_1_exempts_no_cell(buses, call, okay):
    """The paper's experiments leave one cell as it is; plan, folder and run file say which rule."""
    usual, printed = (
        " ".join(call("plan run.toml", PRINTED, "plan.cell_epsilon=2 --no-grids", more).out.split())
        for more in ((), "--set plan.exempt=none")
    )
    assert "Nobody is suppressed in the cell of smallest error beforehand" in usual
    assert "No cell is exempt, as in Algorithm 1." in printed
    for form in ((*PRINTED, "plan.cell_epsilon=0.5"), (BOTH, "--epsilon 1")):
        out = f"map-{len(form)}"
        options = ("--set plan.exempt=none --set release.accept_noise=true --out", out)
        okay("release run.toml", form, options)
        assert call("verify", out).code == 0
        manifest = json.loads((buses / out / "manifest.json").read_text())
        assert manifest["plan"]["request"]["exempt"] == "none"


def test_an_epsilon_beside_the_printed_form_is_refused(buses, refuse):
    """The message has what to give in its place."""
    said = refuse("plan run.toml", BOTH, "--set plan.clip_user=printed --epsilon 3")
    assert "leave out epsilon and give cell_epsilon=1" in " ".join(said.err.split())
