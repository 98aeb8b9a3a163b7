"""An occupancy of private presence tells nothing, and is nothing that public code takes."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from examples import examples
from hexveil import HexveilError
from hexveil.mechanisms.presence import PresenceSums, total_over_units
from hexveil.mechanisms.single_cell import CellProblem
from hexveil.mechanisms.stage_data import Outputs, PrivateSums
from hexveil.model.occupancy import Occupancy
from hexveil.model.private_pairs import MAX_RECORDS, PrivatePairs


def some_pairs(n_units=3):
    """Return pairs of some units."""
    units = np.arange(n_units)
    return PrivatePairs(units % 2, units, units + 1, units)


def test_it_has_no_member_of_an_occupancy():
    """None of what planning reads of an occupancy is there, so no public function works on it."""
    members = {n for n in vars(Occupancy) | Occupancy.__annotations__ if not n.startswith("_")}
    assert {"n_users", "n_cells", "users_per_cell", "fingerprint", "map_cells"} <= members
    for private in (some_pairs(), PresenceSums(some_pairs())):
        present = {name for name in members if hasattr(private, name)}
        assert present <= {"map_cells"} & set(dir(PrivateSums))


@pytest.mark.parametrize("use", [len, iter, hash, bool, np.array, float, sorted, vars])
def test_it_cannot_be_counted_or_listed(use):
    """Nothing that a caller can do by accident depends on the records."""
    results = []
    for pairs in (some_pairs(0), some_pairs(3)):
        try:
            results.append(repr(use(pairs)))
        except TypeError:
            results.append("refused")
    assert results[0] == results[1]


def test_its_repr_is_constant():
    """Two data sets have the same repr, by themselves and inside the sums of a release."""
    for wrap in (lambda pairs: pairs, PresenceSums):
        shown = {repr(wrap(some_pairs(n))) + str(wrap(some_pairs(n))) for n in (0, 1, 7)}
        assert len(shown) == 1


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_it_is_neither_pickled_nor_copied(duplicate):
    """Private records stay where they were read."""
    with pytest.raises(HexveilError, match="not pickled"):
        duplicate(some_pairs())


def test_public_functions_do_not_take_it():
    """Planning and capacity refuse it, in words that depend on no record."""
    for function in (hv.plan, hv.capacity):
        said = set()
        for n_units in (0, 3):
            with pytest.raises((HexveilError, TypeError, AttributeError)) as caught:
                function(some_pairs(n_units), epsilon=1)
            said.add(str(caught.value))
        assert len(said) == 1
        with pytest.raises((HexveilError, TypeError, AttributeError)):
            function(PresenceSums(some_pairs()), epsilon=1)


def test_stages_of_the_other_model_do_not_measure_it():
    """A stage with public occupancy finds no sums; one with private presence takes no others."""
    cell = CellProblem(np.array([2, 1]), 0, 1, 4)
    stage = hv.mechanisms.Baseline().allocate_cell(cell, 1).next_stage(Outputs())
    with pytest.raises((AttributeError, TypeError)):
        stage.measure(PresenceSums(some_pairs()), Outputs())
    with pytest.raises(TypeError, match="PresenceSums only"):
        total_over_units(PrivateSums(np.array([1, 2])), lambda pairs: pairs.total)


ROWS = st.lists(
    st.tuples(*[st.integers(-(2**62), 2**62)] * 2, st.integers(-5, 2**62), st.integers(0, 2**40)),
    max_size=10,
)


@examples(100)
@given(rows=ROWS)
def test_no_records_cause_an_error(rows):
    """Whatever numbers come in, pairs are made, within the declared limits."""
    pairs = PrivatePairs(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)
    assert ((pairs.records >= 1) & (pairs.records <= MAX_RECORDS)).all()
    assert (pairs.cell >= 0).all()
    units = {unit for cell, unit, n, _ in rows if cell >= 0 and n > 0}
    assert pairs.begin.size == len(units)
    assert pairs.per_unit(np.ones_like(pairs.cell)).sum() == pairs.cell.size


def test_equal_pairs_are_added_up():
    """Rows of one unit and cell are one pair; rows outside the grid are dropped."""
    pairs = PrivatePairs([1, 1, 0, -1, 1], [5, 5, 5, 5, 2], [2, 3, 1, 9, 4], [10, 5, 7, 1, 8])
    assert pairs.cell.tolist() == [1, 0, 1]
    assert pairs.records.tolist() == [4, 1, 5]
    assert pairs.mean.tolist() == [2.0, 7.0, 3.0]
    assert pairs.begin.tolist() == [0, 1]
