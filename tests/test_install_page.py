"""The page of installation names the extras that there are."""

import re
import tomllib
from pathlib import Path

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
