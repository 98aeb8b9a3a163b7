"""Faults are as small as they are said to be, and none is in text that nobody computes with."""

import ast

import pytest

from mutation.operators import mutations

SOURCE = '''"""A docstring of 1 < 2."""
def f(x: int = 3, *, up: bool = True) -> "1 < 2":
    """Return 1 + 1."""
    if x < 1:
        raise ValueError(f"less than {x - 1}")
    return np.minimum(x, -y) * 2.0 if x and not y else min(
        x,
        True,
    )
'''


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("a < b", ["(a <= b)"]),
        ("a == b", ["(a != b)"]),
        ("a + b", ["(a - b)"]),
        ("a / b", ["(a * b)"]),
        ("a and b", ["(a or b)"]),
        ("not a", ["(a)"]),
        ("-a", ["(a)"]),
        ("True", ["(False)"]),
        ("7", ["(8)"]),
        ("0.5", ["(2.0)"]),
        ("min(a, b)", ["(max(a, b))"]),
        ("math.floor(a)", ["(math.ceil(a))"]),
        ("a.max(axis=b)", ["(a.min(axis=b))"]),
        ("float_up(a)", ["(float_down(a))"]),
        ("'text' f'{1}'", []),
        ("if a:\n    raise b", ["pass"]),
        ("if TYPE_CHECKING:\n    a = 1", []),
        ("def f(a=1): pass", []),
        ("@frozen(True)\nclass A: pass", []),
        ("zip(a, strict=True)", []),
    ],
)
def test_each_operator(text, faults):
    """One fault for each operator, and none in messages, defaults and types."""
    assert [mutation.after for mutation in mutations(text.encode())] == faults


def test_a_mutant_is_a_program_that_differs_in_one_place():
    """Each of a file's mutants can be parsed, and is neither the original nor another mutant."""
    source = SOURCE.encode()
    texts = [mutation.applied(source) for mutation in mutations(source)]
    trees = {ast.dump(ast.parse(text)) for text in (source, *texts)}
    assert len(trees) == len(texts) + 1 == 12


def test_a_fault_is_shown_on_one_line():
    """The report names line, text and fault."""
    shown = [str(mutation) for mutation in mutations(SOURCE.encode())]
    assert "line 6: min( x, True, )  ->  (max(x, True))" in shown
    assert [line for line in shown if "\n" in line] == []
