"""Run the tests that name an optional package with that package hidden, one package at a time.

absent.py [PACKAGE ...], by default every optional package. Children of the tests do not see it
either: tests/absent/sitecustomize.py. A test that needs the package must be skipped then, and no
other may fail.
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
    """Return 1 if a run failed."""
    failed = []
    for package in sys.argv[1:] or WORDS:
        files = naming(WORDS[package])
        path = os.pathsep.join(filter(None, (str(TESTS / "absent"), os.environ.get("PYTHONPATH"))))
        environment = os.environ | {"HEXVEIL_ABSENT": package, "PYTHONPATH": path}
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--hypothesis-profile=quick"]
        print(f"-- without {package}: {len(files)} files", flush=True)
        done = subprocess.run(
            [*command, "-m", f"{ALONE} and not spark", *files],
            cwd=ROOT,
            env=environment,
            check=False,
        )
        failed += [package] * (done.returncode != 0)
    print(f"failed without: {' '.join(failed)}" if failed else "each package can be absent")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
