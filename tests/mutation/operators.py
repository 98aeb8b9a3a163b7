"""Small faults in source text: each differs from the original in one expression or one check."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
OPPOSITES = {
    "min": "max", "minimum": "maximum", "argmin": "argmax", "floor": "ceil",
    "float_up": "float_down", "cummin": "cummax", "any": "all",
}  # fmt: skip
OPPOSITES |= {after: before for before, after in OPPOSITES.items()}
EQUIVALENT = {"strict", "copy"}
"""Arguments that change no result."""
LITERAL = (ast.Raise, ast.JoinedStr, ast.arguments, ast.AnnAssign)
"""Messages, defaults of parameters and fields: no fault is put into these."""


@dataclass(frozen=True)
class Mutation:
    """A replacement of one span of a file's text, given by offsets in its UTF-8 bytes."""

    line: int
    begin: int
    end: int
    before: str
    after: str

    def applied(self, source: bytes) -> bytes:
        """Return the source with the fault in it."""
        return source[: self.begin] + self.after.encode() + source[self.end :]

    def __str__(self) -> str:
        """Return the change on one line."""
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return f"line {self.line}: {before}  ->  {after}"


def mutations(source: bytes) -> list[Mutation]:
    """Return every fault that the operators can put into a file."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    changes = []
    for node, text in _changes(ast.parse(source)):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        changes.append(Mutation(node.lineno, begin, end, source[begin:end].decode(), text))
    return changes


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Yield what can be replaced at a node and below it, each with the new text."""
    if isinstance(node, LITERAL) or _is_for_types(node):
        return
    if isinstance(node, ast.keyword) and node.arg in EQUIVALENT:
        return
    if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise) and not node.orelse:
        yield node, "pass"
    elif isinstance(node, ast.expr):
        for changed in _faults(node):
            yield node, f"({ast.unparse(changed)})"
    decorators = getattr(node, "decorator_list", ())
    for child in ast.iter_child_nodes(node):
        if child not in decorators:
            yield from _changes(child)


def _is_for_types(node: ast.AST) -> bool:
    """Return whether a node is a block for type checkers alone."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _faults(node: ast.expr) -> Iterator[ast.expr]:
    """Yield an expression with one fault each."""
    match node:
        case ast.Compare(left, [op], [right]) if type(op) in COMPARISONS:
            yield ast.Compare(left, [COMPARISONS[type(op)]()], [right])
        case ast.BinOp(left, op, right) if type(op) in ARITHMETIC:
            yield ast.BinOp(left, ARITHMETIC[type(op)](), right)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.And() if isinstance(op, ast.Or) else ast.Or(), values)
        case ast.UnaryOp(ast.USub() | ast.Not(), operand):
            yield operand
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            yield ast.Constant(value + 1 if isinstance(value, int) else 2 * value + 1)
        case ast.Call(ast.Name(name) as function, arguments, keywords) if name in OPPOSITES:
            opposite = ast.Name(OPPOSITES[name], function.ctx)
            yield ast.Call(opposite, arguments, keywords)
        case ast.Call(ast.Attribute(owner, name, context), arguments, keywords):
            if name in OPPOSITES:
                opposite = ast.Attribute(owner, OPPOSITES[name], context)
                yield ast.Call(opposite, arguments, keywords)
