"""Every fault of the list is found by the test that is named for it."""

import pytest

from attack import test_exact_law
from attack.mutants import MUTANTS


@pytest.fixture(autouse=True)
def _worlds_of_their_own():
    """Plan anew with a fault, and again without it."""
    test_exact_law.cases.cache_clear()
    yield
    test_exact_law.cases.cache_clear()


@pytest.mark.parametrize("name", MUTANTS)
def test_each_fault_is_found(name, monkeypatch):
    """The named test fails, and for the reason that is expected."""
    mutant = MUTANTS[name]
    given = mutant.given | ({"monkeypatch": monkeypatch} if "monkeypatch" in mutant.given else {})
    mutant.put(monkeypatch)
    with pytest.raises(AssertionError, match=mutant.says):
        mutant.test()(**given)
