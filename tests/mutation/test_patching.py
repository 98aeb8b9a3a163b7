"""Loaded modules compute with changed source, and say which of their blocks a call enters."""

import importlib.util
import sys

import pytest

from mutation.patching import LoadedModule

SOURCE = '''"""A module."""

from functools import lru_cache

LIMIT = 3

def above(x):
    """Return whether a number is above the limit."""
    if x > LIMIT:
        return True
    return False

@lru_cache
def doubled(x):
    return [each for each in range(x)] and 2 * x

class Square:
    side = 4

    @property
    def area(self):
        return self.side * self.side
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return a module that a file in a temporary folder defines."""
    file = tmp_path / "changing.py"
    file.write_text(SOURCE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("changing", file)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "changing", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "before", "after", "call"),
    [
        (9, "x > LIMIT", "x <= LIMIT", lambda module: module.above(4)),
        (9, "if x > LIMIT:\n        return True", "pass", lambda module: module.above(4)),
        (15, "2 * x", "2 + x", lambda module: module.doubled(1)),
        (22, "self.side * self.side", "self.side", lambda module: module.Square().area),
        (5, "3", "4", lambda module: module.above(4)),
    ],
)
def test_a_change_is_that_of_a_module_loaded_anew(module, line, before, after, call):
    """Functions, decorated ones, methods and constants follow the changed source."""
    changed = SOURCE.replace(before, after)
    loaded, original = LoadedModule(module), call(module)
    assert loaded.can_change(line)
    module.doubled.cache_clear()
    loaded.change(changed.encode(), line)
    anew = type(module)("anew")
    exec(changed, vars(anew))  # noqa: S102  the text above
    assert call(module) == call(anew) != original


@pytest.mark.slow
def test_a_constant_changes_where_it_was_imported(module, monkeypatch):
    """Another module that holds the same constant gets the new value."""
    other = type(module)("other")
    other.LIMIT = module.LIMIT
    monkeypatch.setitem(sys.modules, "other", other)
    LoadedModule(module).change(SOURCE.replace("LIMIT = 3", "LIMIT = 5").encode(), 5)
    assert (module.LIMIT, other.LIMIT) == (5, 5)


@pytest.mark.slow
def test_bodies_of_classes_are_left_alone(module):
    """An attribute of a class belongs to no function, and is no constant of the module."""
    assert not LoadedModule(module).can_change(18)


@pytest.mark.slow
def test_blocks_that_a_call_enters_are_recorded(module):
    """The branch that is taken is among them, the other is not, and results stay."""
    loaded = LoadedModule(module)
    reached = loaded.instrument()
    assert not module.above(1)
    assert reached == {8}
    assert module.above(4)
    assert reached == {8, 10}
    assert [loaded.block(line) for line in (5, 9, 10, 11, 15, 22)] == [None, 8, 10, 8, 15, 22]
