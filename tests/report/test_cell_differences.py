"""One rule for the difference of two cells: what it joins, and that it holds for known truths."""

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from report.pages import data_of, page_of, restated


@pytest.fixture
def pair(wards):
    """Return a function of numbers and distances that gives the difference of two cells."""

    def difference(number, below, above=None, bias=0.0, weight=(1, 1)):
        number, below = np.array(number), np.array(below)
        above = below if above is None else np.array(above)
        columns = {
            "cell": ["a", "b"], "mean_raw": number, "mean_bias": np.full(2, bias),
            "mean_low": number - below, "mean_high": number + above, "weight_low": weight,
        }  # fmt: skip
        found = restated(wards, pa.table(columns)).difference("a", "b")
        return found.difference, found.low, found.high, found.is_told_apart

    return difference


def test_independent_errors_join_as_the_root_of_their_squares(pair):
    """Distances of 3 and 4 make 5: overlapping intervals can be told apart."""
    assert pair([30.0, 24.0], [3.0, 4.0]) == (6.0, 1.0, 11.0, True)
    assert pair([30.0, 26.0], [3.0, 4.0]) == (4.0, -1.0, 9.0, False)
    # Each side has its own distances; a difference is at most the range.
    found = pair([30.0, 24.0], [3.0, 40.0], [12.0, 4.0])
    assert found[1:3] == pytest.approx((1.0, 6.0 + np.hypot(12.0, 40.0)), abs=2e-3)
    assert pair([60.0, 5.0], [30.0, 40.0])[2] == 65.0
    assert not pair([60.0, 5.0], [3.0, 4.0], weight=(1, 0))[3]
    # Bias is no draw: it is taken out of the distances, and adds up.
    assert pair([30.0, 20.0], [4.0, 5.0], bias=1.0) == (10.0, 3.0, 17.0, True)


def test_the_page_has_the_numbers_and_the_bias_of_raw_averages(city):
    """Shown are raw numbers: their stated bias is taken out of the distances, and added in full."""
    columns = data_of(page_of(city))["columns"]
    shown = {name: np.array(columns[name]) for name in ("number", "below", "above", "bias")}
    number, low, high, bias = (
        city[f"mean_{name}"] for name in ("raw", "low", "high", "bias")
    )  # fmt: skip
    assert np.allclose(shown["number"], number, atol=1e-3)
    assert (shown["below"] + shown["bias"] >= number - low - 1e-3).all()
    assert (shown["above"] + shown["bias"] >= high - number - 1e-3).all()
    assert (shown["below"] + shown["bias"] <= number - low + 2.1e-3).all()
    assert (shown["bias"] <= bias + 1e-3).all()


def made(seed, groups=30, users=40):
    """Return readings of vehicles in labelled cells, and the true average of each cell."""
    rng = np.random.default_rng(seed)
    centre = 30.0 + 6.0 * rng.normal(size=groups)
    cell = np.repeat(np.arange(groups), users * 12)
    user = rng.integers(0, groups * users // 3, groups * users)
    value = np.clip(centre[cell] + rng.normal(0, 6, cell.size), 0, 100)
    columns = {
        "u": np.repeat(user, 12).astype(str), "g": np.char.add("g", cell.astype(str)),
        "v": value, "t": 1_700_000_000 + np.arange(cell.size),
    }  # fmt: skip
    truth = np.bincount(cell, value) / np.bincount(cell)
    return columns, {f"g{number}": float(one) for number, one in enumerate(truth)}


def release(tmp_path, columns, **options):
    """Return a release of these readings by label."""
    data = hv.read(
        pa.table(columns), user="u", value="v", time="t", bounds=(0, 100), quantum="0.1",
        value_unit="km/h", cells=hv.Labels("g"),
    )  # fmt: skip
    book = hv.Ledger(str(tmp_path / "ledger.sqlite"), dataset="made", budget=100)
    return hv.release(data, hv.plan(data, **options), ledger=book, accept_noise=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"epsilon": 4, "clipping_range": "bounds"}, {"epsilon": 1, "clipping_range": "private"}],
    ids=["raw", "estimates"],
)
def test_intervals_of_differences_hold_the_truth(tmp_path, options):
    """At least nine in ten pairs of ten maps: 95 percent are meant, pairs of a map are alike."""
    columns, truth = made(11)
    held = []
    for edition in range(10):
        made_release = release(tmp_path, columns, edition=str(edition + 1), **options)
        cells = list(made_release["cell"])
        first, second = np.triu_indices(len(cells), 1)
        first, second = first[edition::10], second[edition::10]
        found = [
            made_release.difference(cells[a], cells[b]) for a, b in zip(first, second, strict=True)
        ]
        true = np.array([truth[name.split("=")[-1]] for name in cells])
        pairs = zip(found, true[first] - true[second], strict=True)
        held.append(np.mean([one.low <= difference <= one.high for one, difference in pairs]))
    assert np.mean(held) > 0.9
    low, high = made_release["mean_low"], made_release["mean_high"]
    disjoint = (low[first] > high[second]) | (high[first] < low[second])
    assert sum(one.is_told_apart for one in found) >= disjoint.sum()
    one = made_release.difference(cells[0], cells[1])
    other = made_release.difference(cells[1], cells[0])
    assert (other.low, other.high) == pytest.approx((-one.high, -one.low))
    for second, statistic, words in (
        ("g77", None, "no cell 'g77'"),
        (cells[0], None, "name two cells"),
        (cells[1], "p50", "no p50"),
    ):
        with pytest.raises(hv.InputError, match=words):
            made_release.difference(cells[0], second, statistic=statistic)
    assert ("told apart" in str(one)) == (one.is_told_apart or "cannot" in str(one))
    # A folder that was read back has the same numbers.
    loaded = hv.load(made_release.write(tmp_path / "map"))
    assert loaded.difference(cells[0], cells[1]) == one
