"""The table of allowed imports: which room may use which, and which third-party package.

A room is a folder of src/hexveil, or a file beside the folders. Imports for type checkers count
too: a room that names another's type depends on it. A new room is entered here.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from source_trees import ROOT, parsed

SOURCE = ROOT / "src" / "hexveil"
API = "hexveil"  # the package itself, whose names load the other rooms
EVERY_ROOM = "*"
BASE = "base model"  # values that every room may import
ROOMS = {
    "base": "",
    "model": "base",
    # The public side: no record, no engine, no noise library.
    "accounting": BASE,
    "theory": "accounting",
    "evaluation": f"{BASE} accounting mechanisms records simulation",
    "planning": f"{BASE} accounting theory mechanisms smoothing",
    "smoothing": BASE,
    # What published days say about the next one: no record, no plan, no value.
    "learning": f"{BASE} smoothing",
    # Public and private halves of what is released, and the only door to the noise library.
    "mechanisms": f"{BASE} accounting smoothing",
    # Kinds of clipping plan as well: both sides of a mechanism stand in one place.
    "mechanisms/looks": f"{BASE} accounting smoothing mechanisms planning",
    # The private side.
    "records": BASE,
    "ledger": f"{BASE} accounting",
    "publishing": (
        f"{BASE} accounting records mechanisms ledger planning smoothing learning report"
    ),
    # What people see.
    "report": BASE,
    "config": f"{BASE} mechanisms planning records",
    "simulation": f"{BASE} records",
    "cli": EVERY_ROOM,
    "__main__": "cli",
    "__init__": EVERY_ROOM,
}
"""Which rooms a room may import."""
PACKAGES = {
    "base": (
        "numpy pyarrow h3:hexagons.py h3ronpy:hexagons.py scipy:normal_law.py "
        "threadpoolctl:blas_threads.py"
    ),
    "model": "numpy",
    "accounting": "numpy",
    "evaluation": "numpy pyarrow",
    "planning": "numpy pyarrow scipy",
    "smoothing": "numpy",
    "learning": "numpy",
    "mechanisms": "numpy opendp:noise.py",
    "mechanisms/looks": "numpy",
    "records": (
        "numpy pyarrow pandas polars duckdb:duckdb pyspark:spark py4j:spark jinja2:sql "
        "google:sources/vehicle_positions.py rich:progress.py"
    ),
    "ledger": "numpy pyarrow sqlalchemy psycopg:databases.py",
    "publishing": (
        "numpy pyarrow pandas polars geopandas:published_numbers.py "
        "matplotlib:published_numbers.py jsonschema:verification/untrusted_files.py "
        "cryptography:signing.py"
    ),
    "report": "numpy pyarrow jinja2 markupsafe matplotlib:figure_style.py matplotlib:notebook.py",
    "simulation": "numpy pyarrow scipy:city",
    "cli": "numpy pyarrow click rich",
}
"""Which third-party packages, some in one file or folder of the room alone."""
PRIVATE_PRESENCE = {
    *("PrivatePairs", "PresenceSums", "private_pairs", "total_over_units"),
    *("PrivateDataset", "private_dataset", "fetch_declared"),
    *("PrivateColumns", "declared_sums"),
}
"""Names through which records of private presence can be had."""
SEES_PRIVATE_PRESENCE = ("records", "publishing", "mechanisms/presence")
"""Rooms that may import them. Planning, accounting, smoothing, report and the rest are public."""
NOT_AT_TOP = {"geopandas", "pandas", "polars", "matplotlib"}
HEAVY = (
    "duckdb", "opendp", "sqlalchemy", "pandas", "polars", "click",
    "matplotlib", "scipy", "jsonschema", "pyspark", "cryptography", "google", "geopandas",
)  # fmt: skip


def files():
    """Return every source file, by its path inside the package."""
    return sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))


def room_of(file):
    """Return the room a source file belongs to."""
    if "/".join(file.parts[:2]) in ROOMS:
        return "/".join(file.parts[:2])
    return file.parts[0] if len(file.parts) > 1 else file.stem


def internal(module, name):
    """Return the room that `from hexveil.x import name` or `import hexveil.x` reaches, if any."""
    parts = module.split(".")
    if len(parts) > 1:
        return parts[1]
    if name in ROOMS:
        return name
    return None if name == "__version__" else API


def imports(tree):
    """Yield (module, name or None, node) for each import anywhere in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import hides its room"
            yield from ((node.module, alias.name, node) for alias in node.names)


def package_allowed(room, file, package):
    """Say whether this file of the room may import a third-party package."""
    inside = "/".join(file.parts[1:])
    allowed = (one.partition(":") for one in PACKAGES.get(room, "").split())
    return any(
        package == name and (not place or inside == place or inside.startswith(f"{place}/"))
        for name, _, place in allowed
    )


def breaches(file, text):
    """Return a sentence for each import of a source file that the tables do not allow."""
    here, found, tree = room_of(file), [], parsed(text)
    rooms = (None, here, *ROOMS[here].split())
    for module, name, node in imports(tree):
        package = module.split(".")[0]
        if package == "hexveil":
            allowed = EVERY_ROOM in rooms or internal(module, name) in rooms
        else:
            allowed = package in sys.stdlib_module_names or package_allowed(here, file, package)
            allowed &= package not in NOT_AT_TOP or node not in tree.body
        if not allowed:
            found.append(f"{file}:{node.lineno} may not import {module}")
    return found


def test_every_folder_is_in_the_table():
    """A new folder is entered in the table of this file."""
    assert {room_of(file) for file in files()} <= set(ROOMS)


def test_imports_are_in_the_table():
    """Every import of every source file is allowed by the table."""
    texts = {file: (SOURCE / file).read_text(encoding="utf-8") for file in files()}
    found = [line for file, text in texts.items() for line in breaches(file, text)]
    assert found == [], "\n".join(found)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("simulation/x.py", "from hexveil_research.city import likeness"),
        ("accounting/x.py", "from hexveil.records import read"),
        ("accounting/x.py", "def f():\n    import scipy.optimize"),
        ("planning/x.py", "if TYPE_CHECKING:\n    from hexveil.records.dataset import Sums"),
        ("planning/x.py", "import hexveil as hv"),
        ("mechanisms/other.py", "import opendp.prelude as dp"),
        ("records/read.py", "import duckdb"),
        ("records/read.py", "def f():\n    from pyspark.sql import SparkSession"),
        ("records/sources/source_files.py", "import pandas as pd"),
        ("base/x.py", "from hexveil.model.cells import Cells"),
    ],
)
def test_forbidden_imports_are_found(file, text):
    """The check sees each kind of forbidden import, so that a green table means something."""
    assert len(breaches(Path(file), text)) == 1


def presence_breaches(file, text):
    """Return the names of private presence that a source file imports and may not."""
    room = file.as_posix()
    if any(room.startswith(f"{allowed}/") for allowed in SEES_PRIVATE_PRESENCE):
        return []
    paths = ((module, name) for module, name, _ in imports(ast.parse(text)))
    return [
        f"{file} may not import {module} {name or ''}"
        for module, name in paths
        if PRIVATE_PRESENCE & {name, *module.split(".")}
    ]


def test_private_presence_is_not_handed_to_public_code():
    """Records of private presence are imported by those who read, measure and release them."""
    texts = {file: (SOURCE / file).read_text(encoding="utf-8") for file in files()}
    found = [line for file, text in texts.items() for line in presence_breaches(file, text)]
    assert found == [], "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "from hexveil.model.private_pairs import PrivatePairs",
        "import hexveil.model.private_pairs",
        "if TYPE_CHECKING:\n    from hexveil.mechanisms.presence import PresenceSums",
        "def f():\n    from hexveil.records.duckdb.reading import fetch_declared",
        "from hexveil.records.column_datasets import PrivateDataset",
    ],
)
def test_imports_of_private_presence_are_found(text):
    """The check sees every way to import such a name, and lets those rooms alone that may."""
    assert len(presence_breaches(Path("planning/presence/x.py"), text)) == 1
    assert presence_breaches(Path("mechanisms/presence/x.py"), text) == []


FIGURES = ("jinja2", "pandas", "polars", "matplotlib", "scipy", "duckdb", "geopandas")


@pytest.mark.parametrize(
    ("module", "left_out"),
    [
        ("hexveil", HEAVY),
        ("hexveil.theory", HEAVY),
        ("hexveil.planning", HEAVY),
        ("hexveil.publishing", FIGURES),
        ("hexveil.report", FIGURES[:1]),
    ],
)
def test_what_is_imported_loads_nothing_heavy(module, left_out):
    """The public side loads no engine, noise library or database; a release no figures."""
    code = f"import sys, {module}; print(*(p for p in {left_out!r} if p in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
