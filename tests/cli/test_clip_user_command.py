"""CLIP-USER on own records, as printed and improved: plan, release, verify."""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv

PLACES = ((21.10, 72.75), (21.20, 72.80), (21.25, 72.85))
BOTH = ("--set", "plan.method=clip-user", "--set", "plan.statistics=mean,variance")
PRINTED = (*BOTH, "--set", "plan.clip_user=printed", "--set")


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
def test_plan_shows_k_the_stages_and_both_losses(buses, call):
    """In text and as JSON data: K, a stage's cells and users, the paper's loss and the exact."""
    said = call("plan", "run.toml", *PRINTED, "plan.cell_epsilon=2")
    assert said.code == 0, said.err
    text = " ".join(said.out.split())
    assert "nobody contributes to more than K = 2 cells, instead of 3" in text
    assert "The paper's loss is 4, K times 2 (without suppression 6)" in text
    assert "exact loss instead, at most 3.34." in text
    assert "3 cells to 2 (2 of 2 users); 2 cells halted (0 of 60 users)." in text
    assert "Naive accounting" not in text
    found = json.loads(
        call("plan", "run.toml", *PRINTED, "plan.cell_epsilon=2", "--no-grids", "--json").out
    )
    run = found["clip_user"]
    assert (run["degradation"], run["paper_epsilon"], run["cell_epsilon"]) == (2, 4, 2)
    assert run["exact_epsilon"] == found["epsilon"] < run["paper_epsilon"] == found["l0_epsilon"]
    assert [(stage["degree"], stage["suppressed"]) for stage in run["stages"]] == [(3, 2), (2, 0)]


@pytest.mark.slow
def test_suppressions_of_the_halted_stage_stay_or_are_undone(buses, call):
    """As printed they stay; undone, the paper's loss is the same and the exact one is not."""
    kept, undone = (
        call(
            "plan",
            "run.toml",
            *PRINTED,
            "plan.cell_epsilon=4",
            "--no-grids",
            "--set",
            f"plan.unfinished_stage={word}",
        ).out
        for word in ("keep", "undo")
    )
    assert "Suppressions of the halted stage stay." in " ".join(kept.split())
    assert "Suppressions of the halted stage are undone." in " ".join(undone.split())
    assert all("The paper's loss is 12" in " ".join(text.split()) for text in (kept, undone))
    assert "at most 9.42." in " ".join(kept.split())
    assert "at most 10.7." in " ".join(undone.split())


@pytest.mark.slow
@pytest.mark.parametrize("form", ["printed", "improved"])
def test_it_is_released_and_verified(buses, call, form):
    """The ledger has the exact loss, the folder the form and its divisors; every check passes."""
    options = (*PRINTED, "plan.cell_epsilon=1") if form == "printed" else (*BOTH, "--epsilon", "2")
    said = call("release", "run.toml", *options, "--set", "release.accept_noise=true")
    assert said.code == 0, said.err
    checked = call("verify", "map")
    assert checked.code == 0, checked.out
    manifest = json.loads((buses / "map" / "manifest.json").read_text())
    assert manifest["plan"]["request"].get("clip_user") == (
        "printed" if form == "printed" else None
    )
    assert ("divisor" in manifest["cells"][0]["noised"][0]) == (form == "printed")
    readme = " ".join((buses / "map" / "README.txt").read_text().split())
    assert ("records contribute: CLIP-USER as printed" in readme) == (form == "printed")
    spent = float(manifest["guarantee"]["epsilon_spent"])
    assert spent == pytest.approx(1.6695 if form == "printed" else 2, rel=1e-3)
    ledger = hv.Ledger("ledger.sqlite", dataset="buses", budget=2)
    assert float(ledger.spent) == pytest.approx(spent, rel=1e-9)


@pytest.mark.slow
def test_algorithm_1_exempts_no_cell(buses, call):
    """The paper's experiments leave one cell as it is; plan, folder and run file say which rule."""
    usual, printed = (
        " ".join(
            call(
                "plan", "run.toml", *PRINTED, "plan.cell_epsilon=2", "--no-grids", *more
            ).out.split()
        )
        for more in ((), ("--set", "plan.exempt=none"))
    )
    assert "Nobody is suppressed in the cell of smallest error beforehand" in usual
    assert "No cell is exempt, as in Algorithm 1." in printed
    for form in ((*PRINTED, "plan.cell_epsilon=0.5"), (*BOTH, "--epsilon", "1")):
        out = f"map-{len(form)}"
        options = ("--set", "plan.exempt=none", "--set", "release.accept_noise=true", "--out", out)
        said = call("release", "run.toml", *form, *options)
        assert said.code == 0, said.err
        assert call("verify", out).code == 0
        manifest = json.loads((buses / out / "manifest.json").read_text())
        assert manifest["plan"]["request"]["exempt"] == "none"


def test_an_epsilon_beside_the_printed_form_is_refused(buses, call):
    """The message has what to give in its place."""
    said = call("plan", "run.toml", *BOTH, "--set", "plan.clip_user=printed", "--epsilon", "3")
    assert said.code == 2
    assert "leave out epsilon and give cell_epsilon=1" in " ".join(said.err.split())


@pytest.mark.slow
def test_the_comparison_has_both_forms_at_one_price(buses, call):
    """At a price between two exact losses of the printed form, too; its loss per cell is named."""
    options = ("--set", "plan.statistics=mean,variance", "--epsilon", "4", "--compare")
    said = call("plan", "run.toml", *options)
    assert said.code == 0, said.err
    assert re.search(r"^clip-user +4 .*\nas printed +4 ", said.out, re.MULTILINE)
    assert "Mechanisms of one cell are compared for means within an epsilon only." in said.out
    (named,) = re.findall(r"--set plan.cell_epsilon ([\d.]+)", " ".join(said.out.split()))
    alone = json.loads(
        call("plan", "run.toml", *PRINTED, f"plan.cell_epsilon={named}", "--no-grids", "--json").out
    )
    assert alone["epsilon"] == pytest.approx(3.506, rel=1e-3)
