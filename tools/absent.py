"""Run the tests that name an optional package without any of them.

absent.py [PACKAGE ...], by default every optional package: they are hidden together. Children
of the tests do not see them either: tests/absent/sitecustomize.py. A test that needs a package must
be skipped then, and no other may fail. That an extra alone brings what it needs is held by
tests/test_package.py.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
WORDS = {
    "pyspark": "spark",
    "pandas": "pandas",
    "polars": "polars",
    "matplotlib": "matplotlib|plot",
    "geopandas": "geopandas",
    "psycopg": "psycopg|postgres",
    "cryptography": "cryptography|signing|signed|signature",
    "google.transit": "gtfs|google|feeds",
}
"""What a test file names, or a module that it imports, if it may need a package."""
ALONE = "not slow and not browser and not install and not server and not site and not portal"


def naming(pattern: str) -> list[str]:
    """Return the test files that match a pattern, themselves or in a module that they import.

    Those of Spark are none: they run only where it is installed.
    """
    texts = {path: path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py")}
    matched = {path for path, text in texts.items() if re.search(pattern, text, re.IGNORECASE)}
    helpers = {path.stem for path in matched if not path.name.startswith(("test_", "conftest"))}
    imported = re.compile(
        rf"^\s*(?:from|import) (?:[\w.]*\.)?(?:{'|'.join(helpers) or '-'})\b", re.MULTILINE
    )
    return sorted(
        str(path.relative_to(ROOT))
        for path, text in texts.items()
        if path.name.startswith("test_")
        and "spark" not in path.parent.parts
        and (path in matched or imported.search(text))
    )


def main() -> int:
    """Return the exit code of the tests."""
    packages = sys.argv[1:] or [*WORDS]
    files = naming("|".join(WORDS[package] for package in packages))
    path = os.pathsep.join(filter(None, (str(TESTS / "absent"), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"HEXVEIL_ABSENT": " ".join(packages), "PYTHONPATH": path}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--hypothesis-profile=quick"]
    print(f"-- without {', '.join(packages)}: {len(files)} files", flush=True)
    return subprocess.run(
        [*command, "-m", f"{ALONE} and not spark", *files], cwd=ROOT, env=environment, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
