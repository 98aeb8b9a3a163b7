"""The public names: each loads, none is missing from the list, none leads elsewhere."""

import importlib
import importlib.metadata

import pytest

import hexveil as hv
from hexveil import theory


def test_every_public_name_loads():
    """Every name in `__all__` is there."""
    assert [name for name in hv.__all__ if getattr(hv, name, None) is None] == []


def test_public_names_say_where_they_live():
    """A public name is the very object of its home, and its home exports it."""
    for name in set(hv._HOMES) - {"evaluation", "mechanisms", "theory"}:
        module, _, own_name = hv._HOMES[name].partition(":")
        home = importlib.import_module(module)
        assert getattr(hv, name) is getattr(home, own_name or name), name
        assert name in getattr(home, "__all__", [name])


def test_unknown_name_is_an_attribute_error():
    """A name that is not public is an ordinary AttributeError which quotes it."""
    with pytest.raises(AttributeError, match="'hexveil' has no attribute 'reed'"):
        hv.__getattr__("reed")


def test_every_formula_is_documented():
    """Every name of the theory loads and says what it returns."""
    assert [name for name in theory.__all__ if not getattr(theory, name).__doc__] == []
