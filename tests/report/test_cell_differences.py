"""One rule for the difference of two cells: what it joins, and that it holds for known truths."""

import numpy as np
import pytest

import hexveil as hv
from hexveil.report.cell_differences import ComparableNumbers
from hexveil.report.manifest_view import ManifestView
from publishing.releases import statements_of


def numbers(number, below, above=None, bias=0.0, **facts):
    """Return numbers of cells with errors below and above them."""
    number, below = np.array(number), np.array(below)
    above = below if above is None else np.array(above)
    used = facts.pop("is_used", np.ones(number.size, dtype=bool))
    return ComparableNumbers(number, below, above, np.full(number.size, bias), used, 65.0)


def pair(cells):
    """Return the difference of the first two cells."""
    value, low, high, is_told = cells.differ(np.array([0]), np.array([1]))
    return value[0], low[0], high[0], bool(is_told[0])


def test_independent_errors_join_as_the_root_of_their_squares():
    """Distances of 3 and 4 make 5: overlapping intervals can be told apart."""
    assert pair(numbers([30.0, 24.0], [3.0, 4.0])) == (6.0, 1.0, 11.0, True)
    assert pair(numbers([30.0, 26.0], [3.0, 4.0])) == (4.0, -1.0, 9.0, False)
    # Each side has its own distances; a difference is at most the range.
    found = pair(numbers([30.0, 24.0], [3.0, 40.0], [12.0, 4.0]))
    assert (found[1], found[2]) == pytest.approx((1.0, 6.0 + np.hypot(12.0, 40.0)))
    assert pair(numbers([60.0, 5.0], [30.0, 40.0]))[2] == 65.0
    is_used = np.array([True, False])
    assert not pair(numbers([60.0, 5.0], [3.0, 4.0], is_used=is_used))[3]


def test_the_page_has_the_numbers_and_the_bias_of_raw_averages(city):
    """Shown are raw numbers: their stated bias is taken out of the distances, and added in full."""
    view = ManifestView.from_manifest(city.manifest)
    cells = ComparableNumbers.of(city.table, view)
    number, (low, high) = view.shown_numbers(city.table), view.shown_limits(city.table)
    bias = city.table["mean_bias"].to_numpy()
    assert np.allclose(cells.number, number, atol=1e-3)
    assert (cells.below + cells.bias >= number - low - 1e-9).all()
    assert (cells.above + cells.bias >= high - number - 1e-9).all()
    assert (cells.below + cells.bias <= number - low + 2.1e-3).all()
    assert (cells.bias <= bias + 1e-3).all()


# ---- through the public doors ----


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
    import pyarrow as pa  # noqa: PLC0415  beside what it is about

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
        view = ManifestView.from_manifest(statements_of(made_release))
        first, second = np.triu_indices(len(cells), 1)
        numbers = ComparableNumbers.of(made_release.table, view)
        value, lowest, highest, is_told = numbers.differ(first, second)
        true = np.array([truth[name.split("=")[-1]] for name in cells])
        difference = true[first] - true[second]
        held.append(((lowest <= difference) & (difference <= highest)).mean())
    assert np.mean(held) > 0.9
    low, high = view.shown_limits(made_release.table)
    disjoint = (low[first] > high[second]) | (high[first] < low[second])
    assert is_told.sum() >= disjoint.sum()
    one = made_release.difference(cells[0], cells[1])
    assert (one.difference, one.low, one.high) == pytest.approx((value[0], lowest[0], highest[0]))
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
