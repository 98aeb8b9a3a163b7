"""Changed source for modules that are loaded: no mutant needs a process that starts anew."""

import ast
import gc
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

BLOCKS = ("body", "orelse", "finalbody")
REACHED = "__reached__"
Place = tuple[str, int]
"""A function's name and first line, that of its decorators if it has any."""


class LoadedModule:
    """A module in memory, with those of its functions and constants that can be exchanged."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._file = module, module.__file__
        self._tree = ast.parse(Path(self._file).read_bytes())
        self._functions: dict[Place, list[FunctionType]] = {}
        gc.unfreeze()  # what a test run set aside is not listed
        for value in gc.get_objects():
            if isinstance(value, FunctionType) and value.__code__.co_filename == self._file:
                place = value.__code__.co_name, value.__code__.co_firstlineno
                self._functions.setdefault(place, []).append(value)

    def can_change(self, line: int) -> bool:
        """Return whether this line is part of a loaded function or of a constant."""
        return any(line in span for span in self._spans().values()) or any(
            line in _lines(statement) for statement in _constants(self._tree).values()
        )

    def change(self, source: bytes, line: int) -> None:
        """Exchange the function or constant at a line for that in other source."""
        functions = [place for place, span in self._spans().items() if line in span]
        self._exchange(ast.parse(source), functions)
        changed = _constants(ast.parse(source))
        for name, statement in _constants(self._tree).items():
            if not functions and line in _lines(statement):
                self._exchange_constant(name, changed[name])

    def instrument(self) -> set[int]:
        """Return a set to which functions add the first line of each block that they enter."""
        reached = vars(self._module)[REACHED] = set()
        tree = ast.parse(Path(self._file).read_bytes())
        for block in list(_blocks(tree)):
            line = block[0].lineno
            call = ast.parse(f"{REACHED}.add({line})").body[0]
            block.insert(0, ast.increment_lineno(call, line - 1))
        self._exchange(tree, list(self._spans()))
        return reached

    def block(self, line: int) -> int | None:
        """Return the first line of the innermost block of a function around a line."""
        spans = [range(block[0].lineno, block[-1].end_lineno + 1) for block in _blocks(self._tree)]
        return min((span for span in spans if line in span), key=len, default=[None])[0]

    def _spans(self) -> dict[Place, range]:
        """Return the lines of each loaded function."""
        return {place: span for place, span in _outermost(self._tree) if place in self._functions}

    def _exchange(self, tree: ast.Module, places: list[Place]) -> None:
        codes = {
            (code.co_name, code.co_firstlineno): code
            for code in _codes(compile(tree, self._file, "exec", dont_inherit=True))
        }
        for place in places:
            for function in self._functions[place]:
                function.__code__ = codes[place]

    def _exchange_constant(self, name: str, statement: ast.Assign) -> None:
        """Assign a constant anew, in every module that imported it."""
        before = vars(self._module)[name]
        exec(compile(ast.Module([statement], []), self._file, "exec"), vars(self._module))  # noqa: S102  own source
        for module in list(sys.modules.values()):
            if getattr(module, "__dict__", {}).get(name) is before:
                setattr(module, name, vars(self._module)[name])


def _lines(node: ast.stmt | ast.expr) -> range:
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
    return range(first, node.end_lineno + 1)


def _constants(tree: ast.Module) -> dict[str, ast.Assign]:
    """Return the assignments to single names that a module makes."""
    return {
        node.targets[0].id: node
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def _outermost(node: ast.AST) -> Iterator[tuple[Place, range]]:
    """Yield place and lines of functions that no other function holds."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.Lambda):
            lines = _lines(child)
            yield (getattr(child, "name", "<lambda>"), lines[0]), lines
        else:
            yield from _outermost(child)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of functions that no other function holds."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & inspect.CO_OPTIMIZED:
                yield constant
            else:
                yield from _codes(constant)


def _blocks(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of statements inside functions, each once."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef):
            for name in BLOCKS:
                block = getattr(node, name, None)
                if isinstance(block, list) and block:
                    yield block
