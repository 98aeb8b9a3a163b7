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
    "pyspark": "pyspark|to_spark",
    "pandas": "pandas",
    "polars": "polars",
    "matplotlib": r"matplotlib|pyplot|\.plot\(",
    "geopandas": "geopandas",
    "psycopg": "psycopg",
    "cryptography": r"cryptography|signing\b|keygen",
    "google.transit": r"gtfs|google\.transit",
}
"""What a test file names if it may need a package; helpers that need one are for slow tests."""
ALONE = "not slow and not browser and not install and not server and not site and not portal"


def naming(pattern: str) -> list[str]:
    """Return the test files that match a pattern; those of Spark run only where it is installed."""
    return sorted(
        str(path.relative_to(ROOT))
        for path in TESTS.rglob("test_*.py")
        if "spark" not in path.parent.parts and re.search(pattern, path.read_text("utf-8"))
    )


def main() -> int:
    """Return the exit code of the tests."""
    packages = sys.argv[1:] or [*WORDS]
    files = naming("|".join(WORDS[package] for package in packages))
    path = os.pathsep.join(filter(None, (str(TESTS / "absent"), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"HEXVEIL_ABSENT": " ".join(packages), "PYTHONPATH": path}
    command = [sys.executable, "-m", "pytest", "-q", "--hypothesis-profile=quick"]
    print(f"-- without {', '.join(packages)}: {len(files)} files", flush=True)
    return subprocess.run(
        [*command, "-m", f"{ALONE} and not spark", *files], cwd=ROOT, env=environment, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
