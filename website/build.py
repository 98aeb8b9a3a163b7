"""Build the site and check it: `python website/build.py site`.

Pages are gathered in a temporary folder; zensical turns them into HTML; website/check.py reads the
result. The folder that is named is replaced once all of this has succeeded. With `--stored`
notebooks are shown as they are stored, and a picture stands in for the live map.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import check
import notebooks
import pages

ROOT = Path(__file__).resolve().parents[1]


def build(site: Path, *, run: bool) -> list[str]:
    """Build the site in a folder; return the faults found, and then leave the folder alone."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        (work / "src").symlink_to(ROOT / "src")
        shutil.copy(ROOT / "zensical.toml", work)
        shutil.copytree(ROOT / "website" / "theme", work / "theme")
        pages.write(work / "pages", run=run)
        command = [sys.executable, "-m", "zensical", "build", "--strict"]
        # Where zensical finds the extension website/typesetting.py.
        paths = [str(ROOT / "website"), os.environ.get("PYTHONPATH", "")]
        there = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        if subprocess.run(command, cwd=work, env=there, check=False).returncode:  # noqa: S603  our own command
            return ["zensical did not build the site"]
        built = (work / "site").resolve()
        if faults := check.faults(built):
            return faults
        shutil.rmtree(site, ignore_errors=True)
        shutil.move(built, site)
    return []


def main() -> int:
    """Build the site as the command line asks; return the exit code."""
    parser = argparse.ArgumentParser(description="Build the site and check it.")
    parser.add_argument("site", type=Path, help="the folder to write")
    parser.add_argument("--stored", action="store_true", help="do not run notebooks")
    asked = parser.parse_args()
    try:
        faults = build(asked.site, run=not asked.stored)
    except notebooks.NotebookError as error:
        faults = [str(error)]
    sys.stderr.write("".join(f"{line}\n" for line in faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
