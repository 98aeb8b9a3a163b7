from fractions import Fraction

import pytest

from hexveil import InputError, Labels, Occupancy
from hexveil.model.cells import CellTable
from hexveil.model.public_metadata import PublicMetadata, ValueLattice


def test_scale_counts_in_quanta():
    """Span and steps follow from bounds and quantum, exactly."""
    scale = ValueLattice.of((-5, "60.5"), "0.1")
    assert (scale.lower, scale.upper, scale.quantum) == (-5, Fraction(121, 2), Fraction(1, 10))
    assert (scale.span, scale.span_quanta) == (Fraction(131, 2), 655)


@pytest.mark.parametrize(
    ("bounds", "quantum", "message"),
    [
        ((0.05, 1), "0.1", r"the lower bound 0\.05 is not a multiple of the quantum 0\.1"),
        ((0, 0.25), "0.1", r"the upper bound 0\.25 is not a multiple of the quantum 0\.1"),
        ((0, 65), 0, "quantum must be positive"),
        ((65, 0), 1, "smaller to the larger"),
    ],
)
def test_bad_scales_are_refused(bounds, quantum, message):
    """Bounds off the lattice of the quantum are refused by name."""
    with pytest.raises(InputError, match=message):
        ValueLattice.of(bounds, quantum)


@pytest.mark.parametrize("value", ["0.25", -11, 66])
def test_bounds_off_the_lattice_are_refused(value):
    """A bound between two steps, or outside the bounds the records were read with, is refused."""
    with pytest.raises(
        InputError, match=f"cell bound {value} must be a multiple of the quantum 0.5"
    ):
        ValueLattice.of((-10, 65), "0.5").to_quanta(value, "cell bound")


def test_facts_hold_public_things_only():
    """The fields of what a plan may see are these: a new one has to be thought about here."""
    assert " ".join(PublicMetadata.__dataclass_fields__) == (
        "occupancy cells lattice privacy_unit value value_unit rules identity recount bins id_space"
    )
    facts = PublicMetadata(
        Occupancy.from_dense([[1]]),
        CellTable(Labels("a"), labels={"a": ("x",)}),
        ValueLattice.of((0, 1), 1),
    )
    assert (facts.privacy_unit, facts.recount) == ("user", None)
