"""Errors by simulation, distributions of values, and both from text."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.cli import main
from hexveil.evaluation import evaluate

COUNTS = [9, 3, 1]
SIMULATED = {
    "counts": COUNTS,
    "values": hv.evaluation.Normal(20, 10),
    "bounds": (0, 65),
    "epsilons": ["0.5"],
}
FIXED = {"counts": COUNTS, "user_means": [10, 20, 30], "bounds": (0, 65), "epsilons": [1, 2]}


@pytest.fixture(scope="module")
def records():
    """Return sums of two cells: 12 users with 2 records each, and 11 with 1 to 11 of them."""
    n = [2] * 12 + list(range(1, 12))
    means = [10.0 + i for i in range(12)] + [40.0] * 11
    return hv.from_sums(
        pa.table(
            {
                "cell": ["even"] * 12 + ["uneven"] * 11,
                "user": [f"u{i:02d}" for i in (*range(12), *range(11))],
                "n": n,
                "sum": [count * mean for count, mean in zip(n, means, strict=True)],
            }
        ),
        bounds=(0, 65),
    )


def test_baseline_has_its_closed_form():
    """Baseline is unbiased, so its error is the Laplace scale: 65 * 9 / 13 / epsilon."""
    for row in evaluate([hv.mechanisms.Baseline()], **FIXED).to_pylist():
        expected = 65 * 9 / 13 / row["epsilon"]
        assert abs(row["mae"] - expected) < 5 * row["standard_error"]
        assert row["standard_error"] == pytest.approx(expected / 100, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("given", [SIMULATED, FIXED])
def test_the_standard_error_is_that_of_the_error(given):
    """Over 1,000 seeds errors spread as they say: 11% tells 5 deviations from a false formula."""
    given = given | {"epsilons": [1], "trials": 100}
    rows = [
        evaluate([hv.mechanisms.Baseline()], **given, seed=seed).to_pylist()[0]
        for seed in range(1000)
    ]
    spread = np.std([row["mae"] for row in rows], ddof=1)
    said = np.sqrt(np.mean([row["standard_error"] ** 2 for row in rows]))
    assert spread == pytest.approx(said, rel=0.11)


def test_errors_of_many_chunks_are_merged():
    """A trial of so many users is a chunk: mean and standard error are those of all errors."""
    given = SIMULATED | {"counts": np.ones(100_001, dtype=int), "epsilons": [1]}

    def found(trials):
        (row,) = evaluate([hv.mechanisms.Baseline()], **given, trials=trials).to_pylist()
        return row["mae"], row["standard_error"]

    sums = [k * found(k)[0] for k in range(2, 7)]
    first, apart = found(2)
    errors = np.array([first - apart, first + apart, *np.diff(sums)])
    assert (errors > 0).all()
    assert errors[2:].std() > 0
    assert found(6) == pytest.approx((errors.mean(), errors.std(ddof=1) / math.sqrt(6)), rel=1e-6)


@pytest.mark.slow
def test_a_last_chunk_has_the_trials_that_are_left():
    """Of a million trials and one more the standard error is that of so many."""
    given = FIXED | {"epsilons": [1], "trials": 1_000_001}
    (row,) = evaluate([hv.mechanisms.Baseline()], **given).to_pylist()
    scale = 65 * 9 / 13
    assert row["mae"] == pytest.approx(scale, abs=5 * scale / 1000)
    assert row["standard_error"] == pytest.approx(scale / 1000, rel=0.01)


def test_own_records_are_compared_and_stamped(records):
    """A cell's own means give what handing them in gives, and the table says it is private."""
    table = evaluate(
        [hv.mechanisms.OptimalClipping()], data=records, cell="even", epsilons=[1], trials=100
    )
    same = evaluate(
        [hv.mechanisms.OptimalClipping()],
        counts=[2] * 12,
        user_means=[10.0 + i for i in range(12)],
        bounds=(0, 65),
        epsilons=[1],
        trials=100,
    )
    assert table["mae"].to_pylist() == pytest.approx(same["mae"].to_pylist(), rel=1e-12)
    assert table.schema.metadata[b"hexveil.private"].startswith(b"PRIVATE")
    assert b"hexveil.private" not in (same.schema.metadata or {})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": None}, "either user_means or values"),
        ({"user_means": [1, 2, 3]}, "either user_means or values"),
        ({"values": None, "user_means": [1, 2]}, "one number per count"),
        ({"values": None, "user_means": [1, 2, 99]}, "within the bounds"),
        ({"values": None, "user_means": [1, 2, np.nan]}, "within the bounds"),
        ({"values": None, "user_means": ["a", "b", "c"]}, "one number per count"),
        ({"values": "normal"}, "values needs a distribution"),
        ({"counts": None}, "counts and bounds"),
        ({"bounds": None}, "counts and bounds"),
        ({"bounds": (65, 0)}, "from the smaller to the larger"),
        ({"counts": [3, 0]}, "counts"),
        ({"counts": [10**9]}, "give user_means instead"),
        ({"epsilons": []}, "epsilons must be a list of at least one, got none"),
        ({"epsilons": [0]}, "epsilon must be positive"),
        ({"epsilons": "1"}, "epsilons must be a list"),
        ({"epsilons": 1}, "epsilons must be a list"),
        ({"mechanisms": []}, "mechanisms must be a list of at least one"),
        ({"mechanisms": hv.mechanisms.Baseline()}, "mechanisms must be a list"),
        ({"trials": 1}, "trials must be a whole number of at least 2, got 1"),
        ({"trials": 2.5}, "trials must be a whole number"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"cell": "even"}, "cell needs data"),
    ],
)
def test_bad_arguments_are_one_sentence(change, message):
    """What is wrong is said in one sentence."""
    given = {"mechanisms": [hv.mechanisms.Baseline()]} | SIMULATED | change
    with pytest.raises(hv.InputError, match=message) as error:
        evaluate(given.pop("mechanisms"), **given)
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cell": None}, "a cell is needed: name one of 2 "),
        ({"cell": "odd"}, "no cell 'odd'; name one of 2 "),
        ({"counts": [1]}, "data and counts cannot be combined"),
        ({"user_means": [1]}, "data and user_means cannot be combined"),
        ({"bounds": (0, 65)}, "data and bounds cannot be combined"),
    ],
)
def test_bad_arguments_beside_records(records, change, message):
    """Records have their own counts, means and bounds; their cell must exist."""
    with pytest.raises(hv.InputError, match=message):
        evaluate(
            [hv.mechanisms.Baseline()], **({"data": records, "cell": 0, "epsilons": [1]} | change)
        )


SAMPLES = np.array([3, 1, 4])
TRIALS = 20_000


def samples(values, seed=1):
    """Return samples of all trials, user by user."""
    return values.draw(np.random.default_rng(seed), SAMPLES, TRIALS)


@pytest.mark.parametrize(
    ("values", "mean", "sd"),
    [
        (hv.evaluation.Normal(20, 10), 20, 10),
        (hv.evaluation.Uniform(10, 40), 25, 30 / math.sqrt(12)),
        (hv.evaluation.Heterogeneous(20, 8, 6), 20, 10),
    ],
    ids=repr,
)
def test_samples_have_the_stated_mean_and_spread(values, mean, sd):
    """Per sample, within 5 standard errors; 5% off would be rejected."""
    drawn = samples(values)
    assert drawn.shape == (TRIALS, 8)
    assert np.abs(drawn.mean(axis=0) - mean).max() < 5 * sd / math.sqrt(TRIALS)
    assert drawn.std(axis=0) == pytest.approx(np.full(8, sd), rel=0.05)


def test_a_users_samples_share_its_level():
    """Two samples of one user correlate by between²/(between² + within²), of two users not."""
    seen = np.corrcoef(samples(hv.evaluation.Heterogeneous(20, 8, 6)), rowvar=False)
    user = np.repeat(np.arange(3), SAMPLES)
    expected = np.where(user[:, None] == user, 0.64, 0.0) + 0.36 * np.eye(8)
    assert np.abs(seen - expected).max() < 5 / math.sqrt(TRIALS)


@pytest.mark.parametrize("numbers", [(20, -1, 1), (20, 1, -1), (math.inf, 1, 1), (20, math.nan, 1)])
def test_impossible_distributions_are_refused(numbers):
    """A negative spread or a number that is none is one clear sentence."""
    with pytest.raises(hv.InputError, match="Heterogeneous needs a finite mean and two"):
        hv.evaluation.Heterogeneous(*numbers)


# ---- mechanisms and values from text, as the command takes them ----


def command(folder, values, *words):
    """Return the exit code of the command for counts in a file."""
    (folder / "counts.json").write_text(json.dumps(COUNTS))
    given = ("--counts", str(folder / "counts.json"), "--bounds", "0,65", "--values", values)
    return main(["evaluate", *given, *words])


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("normal:20,10", hv.evaluation.Normal(20, 10)),
        ("Uniform: 0, 65", hv.evaluation.Uniform(0, 65)),
        ("heterogeneous:20,8,5", hv.evaluation.Heterogeneous(20, 8, 5)),
    ],
)
def test_values_are_read(tmp_path, capsys, text, made):
    """A kind and its numbers, in the order of the distribution's parameters; options have them."""
    mechanism = hv.mechanisms.Auto(prior=made)
    words = ("--mechanism", mechanism.name, "--epsilon", "1", "--trials", "50", "--json")
    assert command(tmp_path, text, *words) == 0
    given = {"counts": COUNTS, "bounds": (0, 65), "epsilons": [1], "trials": 50}
    rows = evaluate([mechanism], values=made, **given).to_pylist()
    assert json.loads(capsys.readouterr().out)["rows"] == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gauss:20,10", "values must be one of normal:MEAN,SD, uniform:LOW,HIGH, "),
        ("", "values must be one of"),
        ("normal", "heterogeneous:MEAN,BETWEEN,WITHIN, got 'normal'."),
        ("normal:20", "got 'normal:20'."),
        ("normal:20,10,5", "values must be one of normal:MEAN,SD"),
        ("heterogeneous:1,x,3", "values must be one of normal:MEAN,SD"),
        ("normal:20,-1", "sd of at least 0"),
        ("normal:nan,1", "finite mean"),
    ],
)
def test_wrong_values_are_refused(tmp_path, capsys, text, message):
    """The sentence says how the kind is written."""
    assert command(tmp_path, text) == 2
    assert message in " ".join(capsys.readouterr().err.split())
