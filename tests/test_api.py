"""The public names: each loads, none is missing from the list, none leads elsewhere."""

import importlib
import importlib.metadata
import subprocess
import sys

import pytest

import hexveil as hv
from hexveil import theory


def test_every_public_name_loads():
    """Every name in `__all__` is there."""
    assert [name for name in hv.__all__ if getattr(hv, name, None) is None] == []


def test_lazy_names_are_the_public_names():
    """The table of homes and `__all__` list the same names."""
    assert set(hv._HOMES) | {"__version__"} == set(hv.__all__)
    assert len(set(hv.__all__)) == len(hv.__all__)


def test_public_names_say_where_they_live():
    """A public name is the very object of its home, and its home exports it."""
    for name in set(hv._HOMES) - {"theory"}:
        module, _, own_name = hv._HOMES[name].partition(":")
        home = importlib.import_module(module)
        assert getattr(hv, name) is getattr(home, own_name or name), name
        assert name in getattr(home, "__all__", [name])


def test_unknown_name_is_an_attribute_error():
    """A name that is not public is an ordinary AttributeError which quotes it."""
    with pytest.raises(AttributeError, match="'hexveil' has no attribute 'reed'"):
        hv.__getattr__("reed")


def test_dir_lists_the_public_names():
    """Tab completion shows the public names before any has been loaded."""
    code = "import hexveil; print(*dir(hexveil))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == sorted(hv.__all__)


def test_every_formula_is_documented():
    """Every name of the theory loads and says what it returns."""
    assert [name for name in theory.__all__ if not getattr(theory, name).__doc__] == []
