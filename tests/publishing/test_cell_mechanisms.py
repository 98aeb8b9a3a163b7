"""Mechanisms of one cell, released: ledger, stages, folders, and refusals in time."""

import dataclasses

import numpy as np
import pytest

import hexveil as hv
from hexveil.mechanisms import per_cell_allocation
from hexveil.mechanisms.per_cell_allocation import PlannedCells
from hexveil.planning.cell_mechanisms import SavedStages
from hexveil.planning.serialization import plan_codec
from hexveil.planning.serialization.codec import pack_bytes
from hexveil.publishing.verification import verify
from publishing.releases import forge_manifest, problems_after, said, statements_of
from publishing.setting import dataset_of

MECHANISMS = (
    "ArrayAveraging()",
    'ArrayAveraging("wrap_around", "sqrt")',
    "OptArrayAveraging()",
    'OptArrayAveraging(objective="minimax_std")',
    'OptArrayAveraging(objective="surrogate_printed")',
    'Levy(gamma=0.2, cap=9, interval="unclamped", arrays="full")',
    "Levy(gamma=0.2)",
    "FixedQuantile(candidates=32)",
    "OptimizedQuantile(candidates=32)",
    "AKMV(candidates=32)",
    "Auto(trials=16)",
)


def fleet(n_cells=3, n_users=24, seed=1):
    """Return a data set in which users report in some of the cells."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 9, (n_users, n_cells))
    counts[0] = 2
    counts[:, 0] += 1
    occupancy = hv.Occupancy.from_dense(counts)
    return dataset_of(counts, occupancy.n * rng.integers(5, 55, occupancy.n_pairs))


def dense(occupancy):
    """Return the counts of users down and cells across."""
    counts = np.zeros((occupancy.n_users, occupancy.n_cells), dtype=np.int64)
    counts[occupancy.user, occupancy.cell] = occupancy.n
    return counts


def planned(dataset, mechanism, **options):
    """Return a plan of these cells, without advice."""
    options = {"epsilon": 6, "method": "equal-split", "advise": False} | options
    return hv.plan(dataset, mechanism=mechanism, **options)


@pytest.fixture
def book(tmp_path):
    """Return a ledger with a budget."""
    return hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=50)


def released(dataset, plan, book):
    """Return the release of a plan, however noisy."""
    return hv.release(dataset, plan, ledger=book, accept_noise=True)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_mechanism_is_released_replayed_and_verified(mechanism, book, tmp_path):
    """The same goal gets the stored numbers at no cost; its folder contradicts itself nowhere."""
    dataset = fleet()
    plan = planned(dataset, mechanism)
    assert 4 < float(plan.epsilon) <= 6
    shown = released(dataset, plan, book)
    again = released(dataset, planned(dataset, mechanism), book)
    assert not shown.replayed
    assert again.replayed
    assert again.table.equals(shown.table)
    assert again.manifest == shown.manifest
    assert np.isfinite(shown.table["mean_noisy"].to_numpy()).all()
    (step,) = statements_of(shown)["plan"]["privacy_steps"]
    assert step["mechanism"] == plan.mechanism
    costs = [float(stage["epsilon"]) for stage in step["stages"]]
    assert max(costs) <= float(step["epsilon"]) <= sum(costs) + 1e-9
    shown.write(tmp_path / "folder")
    assert verify.find_problems(tmp_path / "folder") == ()
    text = (tmp_path / "folder" / "README.txt").read_text("utf-8")
    assert step["mechanism"] in " ".join(text.split())


@pytest.mark.parametrize("mechanism", ["ArrayAveraging()", "Levy(gamma=1)"])
def test_per_cell_spends_epsilon_by_exact_accounting(mechanism):
    """A common loss of cells above equal shares is found where users lose less than a cell's."""
    dataset = fleet()
    exact, shares = (planned(dataset, mechanism, method=m) for m in ("per-cell", "equal-split"))
    assert exact.epsilon <= 6
    assert exact.cell_epsilon >= shares.cell_epsilon * (1 - 2**-20)
    assert exact.losses().max() == float(exact.epsilon)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_saved_and_stored_plans_come_back(mechanism, tmp_path):
    """Folder and ledger bytes bring the same losses, errors and stages back."""
    dataset = fleet()
    plan = planned(dataset, mechanism)
    loaded = hv.Plan.load(plan.save(tmp_path / "plan"))
    decoded = plan_codec.decode(plan_codec.encode(plan), plan)
    for copy in (loaded, decoded):
        assert copy.table.equals(plan.table)
        assert (copy.losses() == plan.losses()).all()
        assert plan_codec.encode(copy) == plan_codec.encode(plan)


def test_stages_that_differ_from_the_stored_plan_are_refused():
    """Another digest is named, and is no damage of the ledger."""
    plan = planned(fleet(), "Levy(gamma=1)")
    words, arrays = plan_codec.pack_decisions(plan)
    words["allocation"]["clipping"]["stages"] = "0" * 64
    with pytest.raises(hv.InputError, match="come out otherwise in this version"):
        plan_codec.decode(pack_bytes(words, arrays), plan)


def test_stored_plans_make_no_choice_again(monkeypatch):
    """Predictions may differ on another processor: what was chosen is read, not predicted."""
    plan = planned(fleet(), "Auto(trials=16)")
    like = plan.changed(lower=plan.lower.copy())

    def fail(*_):
        pytest.fail("a stored plan was predicted again")

    monkeypatch.setattr(hv.mechanisms.Auto, "choose", fail)
    decoded = plan_codec.decode(plan_codec.encode(plan), like)
    assert decoded.allocation.clipping.cells.choices == plan.allocation.clipping.cells.choices
    assert plan_codec.encode(decoded) == plan_codec.encode(plan)


@pytest.mark.parametrize(
    ("mechanism", "choice"),
    [
        ("Levy(gamma=0.2)", "1"),
        ("Auto(trials=16)", '["Unknown()", ""]'),
        ("Auto(trials=16)", "[1]"),
        ("Auto(trials=16)", "{"),
    ],
)
def test_choices_that_a_mechanism_never_makes_are_refused(mechanism, choice):
    """A stranger's plan can choose only among what the mechanism itself may choose."""
    plan = planned(fleet(), mechanism)
    saved = SavedStages.of(plan.allocation.clipping)
    with pytest.raises(hv.InputError, match="has a choice that"):
        dataclasses.replace(saved, choices=(choice,) * 3).restored(plan.problem, plan.allocation)
    with pytest.raises(hv.InputError, match="one choice of a mechanism for each cell"):
        dataclasses.replace(saved, choices=()).restored(plan.problem, plan.allocation)


def test_nothing_is_searched_where_nothing_is_left(monkeypatch):
    """A user who is in the most cells and loses all of each cell's loss ends the search."""
    tried = []

    class Counted(PlannedCells):
        def __init__(self, *given, **named):
            tried.append(given)
            super().__init__(*given, **named)

    monkeypatch.setattr(per_cell_allocation, "PlannedCells", Counted)
    plan = planned(fleet(), "Levy(gamma=1)", method="per-cell")
    assert len(tried) == 1
    assert plan.cell_epsilon == pytest.approx(2, rel=1e-8)


def test_stages_of_other_records_are_refused(book):
    """A plan cannot borrow the stages of another one, made for other counts."""
    dataset = fleet()
    occupancy = dataset.occupancy
    other = dataset_of(2 * dense(occupancy), 30 * occupancy.n)
    plan, foreign = planned(dataset, "Levy(gamma=1)"), planned(other, "Levy(gamma=1)")
    clipping = foreign.allocation.clipping
    forged = plan.changed(allocation=dataclasses.replace(plan.allocation, clipping=clipping))
    with pytest.raises(hv.InputError, match="those of other records"):
        released(dataset, forged, book)
    assert not released(dataset, plan, book).replayed


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"statistics": ("mean", "variance")}, "publish the mean alone"),
        ({"epsilon": None, "target_error": "5%"}, "within epsilon, not target_error"),
        ({"method": "joint"}, 'goes with method "per-cell"'),
        ({"bounds": (0, 30)}, "the bounds that the records were read with"),
        ({"mechanism": "Nothing()"}, "there is no 'Nothing'"),
    ],
)
def test_requests_without_meaning_are_refused(options, match):
    """Each with a sentence, before anything is planned."""
    options = {"mechanism": "Levy(gamma=0.2)"} | options
    with pytest.raises(hv.InputError, match=match):
        planned(fleet(), **options)


def test_smoothing_is_refused_before_anything_is_spent(book):
    """Noise of a scale that private choices decide is not that of the smoothing model."""
    dataset = fleet()
    plan = planned(dataset, "Levy(gamma=1)")
    with pytest.raises(hv.InputError, match="smoothed needs noise of a scale known beforehand"):
        hv.release(dataset, plan, ledger=book, estimates=("raw", "smoothed"), accept_noise=True)
    assert released(dataset, plan, book).replayed is False


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_error_is_predicted_and_every_bias_is_a_worst_case(mechanism, tmp_path, book):
    """One prior for all mechanisms; bias and bound hold for all values, and fit the bounds."""
    dataset = fleet()
    plan = planned(dataset, mechanism)
    model = plan.error_models["mean"]
    assert np.allclose(model.error, 60 * plan.allocation.clipping.predicted_error, rtol=1e-12)
    assert (model.error <= model.worst_case_error * (1 + 1e-9)).all()
    assert (model.bias[~model.proven] == 60).all()
    assert (model.bound95 <= 60).all()
    shown = released(dataset, plan, book)
    (stated,) = statements_of(shown)["accuracy"]
    assert stated["basis"] == "prediction"
    assert stated["typical_error"] == pytest.approx(model.error.mean())
    shown.write(tmp_path / "folder")
    assert "worst-case bias + expected noise" not in (tmp_path / "folder/report.html").read_text()


def test_a_worst_case_makes_no_map_too_fine():
    """A grid is judged by the prediction, not by arrays' bias when values are as bad as can be."""
    counts = np.random.default_rng(4).integers(1, 30, (400, 3))
    dataset = dataset_of(counts, 30 * hv.Occupancy.from_dense(counts).n)
    plan = planned(dataset, "ArrayAveraging()", epsilon=3)
    model = plan.error_models["mean"]
    assert model.worst_case_error.mean() > plan.baseline_error > 5 * model.error.mean()
    assert plan.support.beats_constant
    assert (model.graded_bound == np.minimum(model.error * np.log(20), model.bound95)).all()


def test_forged_stages_of_a_folder_are_found(book, tmp_path):
    """A stage that costs more than the release, or a cell that costs too little, is named."""
    dataset = fleet()
    shown = released(dataset, planned(dataset, "Levy(gamma=0.2)"), book)
    shown.write(tmp_path / "folder")
    assert said(tmp_path / "folder")["plan"]["privacy_steps"][0]["step"] == "cell_stages"

    def changed(key, value):
        def forge(place):
            def change(manifest):
                step = manifest["plan"]["privacy_steps"][0]
                if key == "cell_epsilon":
                    step[key] = value
                else:
                    step["stages"][0][key] = value

            forge_manifest(place, change)

        return forge

    for number, (key, value) in enumerate(
        [
            ("epsilon", "9"),
            ("epsilon", "0.001"),
            ("cells", 99),
            ("cell_epsilon", "0.01"),
        ]
    ):
        forged = problems_after(
            changed(key, value), tmp_path / "folder", tmp_path / f"copy{number}"
        )
        assert forged, (key, value)
