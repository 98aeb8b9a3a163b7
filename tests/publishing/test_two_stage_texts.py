"""What a release in several private steps tells its readers, whichever strategy it took."""

import json
import re
from types import SimpleNamespace

import jsonschema
import numpy as np
import pytest

import hexveil as hv
from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning import release_allocation
from hexveil.publishing import receipt
from hexveil.publishing.dossier.dossier import dossier
from hexveil.publishing.estimates import decoded_moments
from hexveil.publishing.manifest import schema
from hexveil.publishing.verification import verify
from publishing.setting import dataset_of, labels

STRATEGIES = ("single_stage", "user_residuals", "cell_residuals")
STEPS = {
    "single_stage": ["clipping_range", "residual_scale", "cells"],
    "user_residuals": ["clipping_range", "residual_scale", "user_clusters", "cells"],
    "cell_residuals": ["clipping_range", "residual_scale", "first_stage", "cells"],
}
USERS, CELLS, EPSILON = 120, 4, 200
ABOUT = {
    "single_stage": "user averages clipped to {clipping_range}, one range found privately for all "
    "cells",
    "user_residuals": "user averages clipped in two parts: a user\u2019s average over all its "
    "cells to {user_clusters}, and its difference from that in the cell to {half} either way",
    "cell_residuals": "user averages clipped to within {half} of a first noisy average of their "
    "cell",
}


def fleet():
    """Return buses that were in several cells, with averages of their own, below and above 0."""
    rng = np.random.default_rng(3)
    counts = np.where(rng.random((USERS, CELLS)) < 0.8, rng.integers(1, 4, (USERS, CELLS)), 0)
    counts[:, 0] += counts.sum(axis=1) == 0
    empty = dataset_of(counts)
    occupancy = empty.occupancy
    value = 300 + rng.normal(0, 60, USERS)[occupancy.user] + 20 * occupancy.cell
    totals = np.clip(value + rng.normal(0, 20, occupancy.n_pairs), 0, 800).astype(int) * occupancy.n
    scale = ValueLattice.of((-40, 40), "0.1")
    return dataset_of(
        counts, totals, scale=scale, cells=labels(CELLS), value="change", value_unit="mm"
    )


@pytest.fixture(scope="module", params=STRATEGIES)
def release(request, tmp_path_factory):
    """Return a release that was made to take this strategy: outputs, folder, the raw one."""
    strategy, data, kept = request.param, fleet(), []
    plan = hv.plan(data, epsilon=EPSILON, clipping_range="two-stage", advise=False)
    folder = tmp_path_factory.mktemp(strategy)
    book = hv.Ledger(folder / "ledger.sqlite", dataset="buses", budget=2 * EPSILON)
    real = decoded_moments.with_outputs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(release_allocation, "select_release_strategy", lambda *_: strategy)
        patch.setattr(
            decoded_moments, "with_outputs", lambda *given: kept.append(real(*given)) or kept[-1]
        )
        made = hv.release(data, plan, ledger=book, accept_noise=True, estimates=("raw", "smoothed"))
        raw = hv.release(data, plan, ledger=book, accept_noise=True)
    made.write(folder / "map")
    return SimpleNamespace(
        strategy=strategy,
        plan=plan,
        made=made,
        raw=raw,
        folder=folder / "map",
        found=kept[-1].allocation.clipping.stages.outputs,  # the first are of the rehearsal
    )


def steps_of(release):
    """Return the private steps by name."""
    return {step["step"]: step for step in release.made.manifest["plan"]["privacy_steps"]}


def ends(step):
    """Return the ends of a step's range."""
    return [step["lower"], step["upper"]]


def plain(data):
    """Yield every number and text in a part of a manifest."""
    if isinstance(data, dict):
        for one in data.values():
            yield from plain(one)
    elif isinstance(data, list):
        for one in data:
            yield from plain(one)
    else:
        yield data


def words(text):
    """Return text on one line, with ordinary blanks."""
    return " ".join(text.replace("\u00a0", " ").split())


def test_every_step_is_listed_with_its_price(release):
    """The steps of the strategy, in order; the largest cost of each, and its part of all."""
    steps = release.made.manifest["plan"]["privacy_steps"]
    assert [step["step"] for step in steps] == STEPS[release.strategy]
    assert steps[1]["strategy"] == release.strategy
    spent = float(release.plan.epsilon)
    for step in steps:
        assert 0 < float(step["epsilon"]) <= spent
        assert step["share"] == pytest.approx(float(step["epsilon"]) / spent, abs=1e-9)
    rows = release.plan.allocation
    prices = {
        "clipping_range": rows.clipping.range.epsilon,
        "residual_scale": rows.clipping.stages.epsilon,
    }
    for name, price in prices.items():
        assert steps_of(release)[name]["epsilon"] == decimal_text(price)
    shares = sum(step["share"] for step in steps)
    if release.strategy == "user_residuals":
        for name, lost in zip(
            ("user_clusters", "cells"), rows.clipping.stages.losses(fleet().occupancy), strict=True
        ):
            assert float(steps_of(release)[name]["epsilon"]) == pytest.approx(lost.max())
    else:
        assert shares == pytest.approx(1.0)


def test_numbers_of_a_manifest_are_plain(release):
    """What stands in a manifest prints as a number, not as a library's object of one."""
    said = release.made.manifest
    assert {type(one) for one in plain(said["plan"]["privacy_steps"])} <= {str, float, int}
    assert {type(one) for one in plain(said["cells"])} <= {str, float, int}


def test_the_ranges_are_those_that_sums_were_cut_to(release):
    """Ends, stretch and widths are of the strategy, in units of the values above the bounds."""
    steps, found = steps_of(release), release.found
    clipping = release.plan.allocation.clipping
    single = release.strategy == "single_stage"
    stretch = clipping.range.widening if single else clipping.stages.widening
    assert steps["clipping_range"]["widening"] == decimal_text(stretch)
    assert ends(steps["clipping_range"]) == pytest.approx([-40 + end / 10 for end in found.ends])
    assert steps["residual_scale"]["half_width"] == pytest.approx(found.residual_radius / 10)
    if release.strategy == "single_stage":
        assert "half_width" not in steps["cells"]
        return
    assert steps["cells"]["half_width"] == pytest.approx(found.half_width / 10)
    if release.strategy == "user_residuals":
        assert ends(steps["user_clusters"]) == pytest.approx(
            [-40 + end / 10 for end in found.user_mean_range]
        )
        assert ends(steps["user_clusters"]) != ends(steps["clipping_range"])
        assert steps["user_clusters"]["n_clusters"] == clipping.stages.cluster_noise.size


def test_centres_are_said_where_distances_are_from_them(release):
    """Under `cell_residuals` each cell says its centre, and numbers are within reach of it."""
    noised = [cell["noised"][0] for cell in release.made.manifest["cells"]]
    assert [("centre" in one) for one in noised] == [release.strategy == "cell_residuals"] * CELLS
    if release.strategy == "cell_residuals":
        half = steps_of(release)["cells"]["half_width"]
        for one, number in zip(noised, release.made.table["mean_noisy"].to_pylist(), strict=True):
            assert abs(number - one["centre"]) <= half + 20 * one["scale"]


def test_a_folder_passes_every_check(release):
    """It follows the schema; `verify` finds nothing; a dossier is made of it."""
    said = json.loads((release.folder / "manifest.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema()).validate(said)
    assert said["plan"]["request"]["clipping_range"] == "two-stage"
    assert verify.find_problems(release.folder) == ()
    assert dossier(release.folder).to_markdown()


def about(release, amount):
    """Return which averages bounds are about, by the manifest."""
    given = {
        name: " to ".join(amount(end) for end in ends(step))
        for name, step in steps_of(release).items()
        if "lower" in step
    }
    half = steps_of(release)["cells"].get("half_width", 0)
    return ABOUT[release.strategy].format(**given, half=amount(half))


def test_every_text_says_what_bounds_are_about(release):
    """Page, README.txt and dossier name the ranges of the strategy taken, and no other range."""
    page = words((release.folder / "report.html").read_text("utf-8"))
    told = words((release.folder / "README.txt").read_text("utf-8"))
    signed = words(dossier(release.folder).to_markdown())
    assert about(release, lambda number: f"{number:,.1f} mm") in page
    assert about(release, lambda number: f"{number:.4g} mm") in told
    assert about(release, lambda number: f"{number:.6g} mm") in signed
    for text in (page, told, signed):
        assert ("one range found privately" in text) == (release.strategy == "single_stage")
        assert (
            text.count("with the smallest predicted error among those that fit the ranges found")
            == 1
        )
        for step in release.made.manifest["plan"]["privacy_steps"]:
            assert f", {step['share']:.0%} of the total)" in text


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_was_cut_off_is_in_no_bound(strategy, tmp_path, monkeypatch):
    """Where a few buses are far above all others, true averages lie beyond the bounds."""
    counts = np.ones((USERS, CELLS), dtype=int)
    user = dataset_of(counts).occupancy.user
    total = np.where(user < USERS // 20, 1000, 100 + user % 40)
    data = dataset_of(counts, total, scale=ValueLattice.of((0, 1000), 1))
    much = 10 * EPSILON  # the interval is found as well as it can be
    plan = hv.plan(data, epsilon=much, clipping_range="two-stage", advise=False)
    monkeypatch.setattr(release_allocation, "select_release_strategy", lambda *_: strategy)
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=much)
    table = hv.release(data, plan, ledger=book, accept_noise=True).table
    true = np.bincount(data.occupancy.cell, total) / USERS
    away = np.abs(table["mean_raw"].to_numpy() - true)
    assert (away > table["mean_bound95"].to_numpy()).all()


def test_the_statement_of_the_page_stays_seven_sentences(release):
    """However many ranges there are, how far off numbers can be is said in one sentence."""
    page = (release.folder / "report.html").read_text("utf-8")
    sentences = re.findall(r'<span class="sentence">(.*?)</span>', page)
    assert len(sentences) == 7
    assert not any(re.search(r"\.\s+[A-Z]", one) for one in sentences)


def columns_of(table):
    """Return what each column is said to hold."""
    return {field.name: field.metadata[b"description"].decode() for field in table.schema}


def test_the_bound_is_described_as_it_was_made(release):
    """Bias, noise and ln 20 add up to it, but under `user_residuals`: its text says what does."""
    strategy, table = release.strategy, release.raw.table
    columns = columns_of(table)
    bias, scale, bound = (table[f"mean_{key}"].to_numpy() for key in ("bias", "scale", "bound95"))
    holds = np.allclose(bias + scale * np.log(20), bound)
    assert (
        holds == ("mean_scale * ln 20" in columns["mean_bound95"]) == (strategy != "user_residuals")
    )
    assert ("clusters" in columns["mean_noisy"]) == (strategy == "user_residuals")
    assert ("centre" in columns["mean_noisy"]) == (strategy == "cell_residuals")
    for name in ("mean_low", "mean_high"):
        of_posterior = strategy == "single_stage"
        assert ("mean_estimate" if of_posterior else "mean_bound95") in columns[name]
    assert release.made.table.column_names[:-1] == list(columns)


def test_smoothed_estimates_say_what_was_done_before(release):
    """Clipping undone by a normal model, class means clamped, or nothing: text and column agree."""
    (model,) = (one["model"] for one in release.made.manifest["smoothing"])
    said = {"single_stage": "", "user_residuals": "clamped", "cell_residuals": "undone"}[
        release.strategy
    ]
    for text in (model, columns_of(release.made.table)["mean_smoothed"]):
        assert [word in text for word in ("clamped", "undone")] == [
            word == said for word in ("clamped", "undone")
        ]
    assert model in words((release.folder / "README.txt").read_text("utf-8"))


def said_of(release):
    """Return the manifest of the folder, and its private steps."""
    said = json.loads((release.folder / "manifest.json").read_text("utf-8"))
    return said, said["plan"]["privacy_steps"]


def written(said, folder):
    """Write a manifest with a receipt over it."""
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps(said), "utf-8")
    receipt.write(folder, said)


def refused(said, folder):
    """Check that no dossier is made of this manifest."""
    written(said, folder)
    with pytest.raises(InputError, match="plan/privacy_steps is not what a release writes there"):
        dossier(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"strategy": "sideways"},
        {"strategy": ["user_residuals"]},
        {"half_width": 0.0},
        {"half_width": "wide"},
        {"epsilon": "-1"},
        {"share": None},
        {"quantile": "most"},
        {"quantile": "9" * 400},
        {"share": 1.5},
        {"step": "look"},
    ],
)
def test_a_dossier_refuses_steps_that_no_release_has(release, tmp_path, change):
    """A strategy, a width or a price that cannot be: nobody signs a text made from it."""
    said, steps = said_of(release)
    steps[1] |= change
    refused(said, tmp_path / "map")


def test_a_dossier_reads_prices_and_parts_as_the_schema_allows_them(release, tmp_path):
    """Ratios are numbers too; a price that no double holds ends in a sentence."""
    said, steps = said_of(release)
    steps[1] |= {"quantile": "4/5", "epsilon": "1/3"}
    written(said, tmp_path / "map")
    assert "80% of user averages" in dossier(tmp_path / "map").to_markdown()
    steps[1]["epsilon"] = "9" * 400
    written(said, tmp_path / "huge")
    with pytest.raises(InputError, match="the epsilon of a step"):
        dossier(tmp_path / "huge")


def test_a_dossier_refuses_the_steps_of_another_way(release, tmp_path):
    """The strategy that is named has steps of its own, in their order; none may be missing."""
    for other in set(STRATEGIES) - {release.strategy}:
        said, steps = said_of(release)
        steps[1]["strategy"] = other
        refused(said, tmp_path / other)
    for gone in range(1, len(STEPS[release.strategy])):
        said, steps = said_of(release)
        if steps.pop(gone)["step"] == "residual_scale" and release.strategy == "single_stage":
            continue  # what is left is how a release with an interval alone reads
        refused(said, tmp_path / str(gone))


def test_a_dossier_needs_the_width_of_the_last_step(release, tmp_path):
    """Where distances were cut, a text that does not say to what would say too little."""
    said, steps = said_of(release)
    if steps[-1].pop("half_width", None) is not None:
        refused(said, tmp_path / "map")
    else:
        assert release.strategy == "single_stage"
