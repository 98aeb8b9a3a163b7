"""The sentence about a package that is missing."""

import importlib.util
import sys

import pytest

from hexveil import InputError
from hexveil.base.optional_packages import require_package


def test_a_missing_package_names_its_extra(monkeypatch):
    """The extra is that of the package unless it has another name."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r'^polars is not .*: pip install "hexveil\[polars\]"\.$'):
        require_package("polars")
    with pytest.raises(InputError, match=r'^geopandas is .*: pip install "hexveil\[geo\]"\.$'):
        require_package("geopandas", "geo")


def test_a_package_that_is_there_is_not_loaded(monkeypatch):
    """Asking for it takes no time: it is looked up, and imported where it is used."""
    monkeypatch.delitem(sys.modules, "this", raising=False)
    require_package("this")
    assert "this" not in sys.modules
