"""Every fault of the list is found by the test that is named for it."""

import pytest

from attack import test_exact_law, test_kinds_at_the_door
from attack.mutants import METER, METERED, MUTANTS, found
from hexveil.base.errors import HexveilError

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _worlds_of_their_own():
    """Plan anew with a fault, and again without it."""
    made = test_exact_law.cases, test_kinds_at_the_door.trial
    for one in made:
        one.cache_clear()
    yield
    for one in made:
        one.cache_clear()


@pytest.mark.parametrize("name", MUTANTS)
def test_each_fault_is_found(name, monkeypatch, tmp_path):
    """The named test fails, and for the reason that is expected."""
    mutant = MUTANTS[name]
    mutant.put(monkeypatch)
    if mutant.metered:
        with pytest.raises(HexveilError, match=METERED):
            mutant.test(monkeypatch, tmp_path)
        monkeypatch.setattr(*found(METER), lambda *_: None)
    with pytest.raises(AssertionError, match=mutant.says):
        mutant.test(monkeypatch, tmp_path)
