"""Put small faults into the program, one at a time, and see which of them no test notices.

`python tools/mutation.py hexveil/accounting hexveil/ledger --number 50 --seed 1`.
A fault is put into a copy of the sources. The quick tests of the same folder are run there, with
the examples of the module, until one fails. Survivors want a small exact test, or are no faults.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
SOURCE = TESTS.parent / "src"
OTHERS = "not slow and not browser and not install and not server and not site and not spark"
OPTIONS = ("-qx", "-p", "no:cacheprovider", "--hypothesis-profile=quick", "--doctest-modules")
SECONDS = 600
"""Tests that take longer with a fault count as endless."""
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
LITERAL = (ast.Raise, ast.JoinedStr, ast.arguments, ast.AnnAssign)
"""Messages, defaults of parameters and fields: no fault is put into these."""


def faults(node: ast.AST) -> list[str]:
    """Return the texts that can stand in place of a node."""
    match node:
        case ast.If(body=[*_, ast.Raise()], orelse=[]):
            return ["pass"]
        case ast.Compare(left, [op], [right]) if type(op) in COMPARISONS:
            changed = ast.Compare(left, [COMPARISONS[type(op)]()], [right])
        case ast.BinOp(left, op, right) if type(op) in ARITHMETIC:
            changed = ast.BinOp(left, ARITHMETIC[type(op)](), right)
        case ast.BoolOp(op, values):
            changed = ast.BoolOp(ast.And() if isinstance(op, ast.Or) else ast.Or(), values)
        case ast.UnaryOp(ast.USub() | ast.Not(), operand):
            changed = operand
        case ast.Constant(bool(value)):
            changed = ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            changed = ast.Constant(value + 1 if isinstance(value, int) else 2 * value + 1)
        case ast.Name(name) if name in OPPOSITES:
            return [OPPOSITES[name]]
        case ast.Attribute(owner, name) if name in OPPOSITES:
            return [f"{ast.unparse(owner)}.{OPPOSITES[name]}"]
        case _:
            return []
    return [f"({ast.unparse(changed)})"]


def mutants(file: Path) -> list[tuple[Path, str, bytes]]:
    """Return every fault of a file: the file, what is changed, and the changed source."""
    source, found = file.read_bytes(), []
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, LITERAL):
            continue
        for text in faults(node):
            begin = starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
            end = starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
            told = (
                f"{file.relative_to(SOURCE)}:{node.lineno} {source[begin:end].decode()} -> {text}"  # type: ignore[attr-defined]
            )
            found.append((file, told, source[:begin] + text.encode() + source[end:]))
        waiting += ast.iter_child_nodes(node)
    return found


def is_noticed(copy: Path, file: Path, changed: bytes) -> bool:
    """Return whether the tests of the folder fail with a fault in a copy of the sources."""
    place = copy / file.relative_to(SOURCE)
    near = TESTS.joinpath(*file.relative_to(SOURCE).parts[1:-1])
    near = next(folder for folder in (near, *near.parents) if folder.is_dir())
    place.write_bytes(changed)
    command = [sys.executable, "-m", "pytest", *OPTIONS, "-m", OTHERS, near, place]
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=TESTS, env=environment, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    finally:
        shutil.copy(file, place)
    return done.returncode != 0


def main() -> int:
    """Try a sample of mutants, and print what became of each."""
    parser = argparse.ArgumentParser(prog="mutation", description=__doc__.split("\n\n")[0])
    parser.add_argument("folders", nargs="+", help="folders or files below src")
    parser.add_argument("--number", type=int, default=50, help="mutants to try in each")
    parser.add_argument("--seed", type=int, default=1, help="which mutants")
    given = parser.parse_args()
    verdicts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        copy = Path(shutil.copytree(SOURCE, Path(name) / "src"))
        for folder in given.folders:
            place = SOURCE / folder
            files = [place] if place.is_file() else sorted(place.rglob("*.py"))
            every = [one for file in files for one in mutants(file)]
            if not every:
                sys.exit(f"{place} has no source to change; name folders below src")
            chance = random.Random(given.seed)  # noqa: S311  a sample
            for file, told, changed in chance.sample(every, min(given.number, len(every))):
                verdict = "noticed" if is_noticed(copy, file, changed) else "SURVIVED"
                verdicts[verdict] += 1
                print(f"{verdict:9}{' '.join(told.split())}", flush=True)
    print(dict(verdicts))
    return int(verdicts["SURVIVED"] > 0)


if __name__ == "__main__":
    sys.exit(main())
