"""The page of installation names the extras that there are."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import hexveil as hv
import package_smoke

ROOT = Path(__file__).resolve().parents[1]
FOR_DEVELOPERS = {"dev", "docs", "portal"}


def test_every_extra_is_on_the_page():
    """The table has each extra that users install, and no other."""
    page = (ROOT / "docs" / "start" / "install.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cells = re.findall(r"^\| (`.*?) \|", page, flags=re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert named == set(project["optional-dependencies"]) - FOR_DEVELOPERS


def test_the_oldest_python_is_on_the_page():
    """The page asks for the Python that the package asks for."""
    page = (ROOT / "docs" / "start" / "install.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = project["requires-python"].removeprefix(">=")
    assert f"Python {oldest} or newer" in page


@pytest.mark.slow
def test_a_recipient_needs_no_extra(tmp_path):
    """Without the packages of `publish` a folder is read; what publishes names the extra."""
    records = package_smoke.dataset()
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=9)
    plan = hv.plan(records, epsilon=3)
    hv.release(records, plan, ledger=book, accept_noise=True).write(tmp_path / "map")
    (tmp_path / "ledger.sqlite").unlink()
    tests = ROOT / "tests"
    path = os.pathsep.join([str(tests / "absent"), str(ROOT / "src")])
    env = os.environ | {"HEXVEIL_ABSENT": "opendp sqlalchemy", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, tests / "package_smoke.py", "reader"],
        cwd=tmp_path, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
