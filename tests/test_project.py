"""The files that hold the project together say the same things."""

import os
import re
import subprocess
import tomllib

import pytest
from packaging.requirements import Requirement

import hexveil as hv
from source_trees import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


FILES = {
    ".ci", ".editorconfig", ".gitignore", ".pre-commit-config.yaml", "ARCHITECTURE.md",
    "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md",
    "SECURITY.md", "benchmarks", "docs", "pyproject.toml", "requirements", "src", "tests", "tools",
    "website", "zensical.toml",
}  # fmt: skip


def git(*arguments):
    """Return the lines that git prints about this checkout; skip where there is none."""
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode > 1:
        pytest.skip("not a checkout of git")
    return done.stdout.splitlines()


def test_the_root_holds_the_project_and_nothing_else():
    """No run file, no cache and no ledger of somebody's is committed."""
    assert {line.partition("/")[0] for line in git("ls-files")} == FILES


@pytest.mark.parametrize(
    "name", ["a.pairs", "b.entry", "c.pack", "ledger.sqlite", "ledger.sqlite-wal"]
)
def test_private_files_are_ignored(name):
    """Caches hold sums by user, ledgers the account: git offers none of them."""
    assert git("check-ignore", f"folder/{name}") == [f"folder/{name}"]


def wanted(extra=None):
    """Return the requirements of the package, or of an extra and the extras it names."""
    if extra is None:
        return [Requirement(line) for line in PROJECT["dependencies"]]
    found = []
    for line in PROJECT["optional-dependencies"][extra]:
        requirement = Requirement(line)
        if requirement.name == "hexveil":
            found += [r for inner in sorted(requirement.extras) for r in wanted(inner)]
        else:
            found.append(requirement)
    return found


def pins(name):
    """Return the version that a lock file pins for each package, each with a hash, of no host."""
    lock = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    assert re.findall(r"(?:https?:|file:|--(?:extra-)?index|--find-links).*", lock) == []
    parts = re.split(r"^(?=[a-z0-9._-]+==)", lock, flags=re.MULTILINE)[1:]
    assert [part for part in parts if "--hash=sha256:" not in part] == []
    found = re.findall(r"^([a-z0-9._-]+)==([^ ;\\]+)", lock, flags=re.MULTILINE)
    return {name.replace("_", "-"): version for name, version in found}


@pytest.mark.parametrize(("lock", "extras"), [("dev.lock", [None, "dev"]), ("docs.lock", ["docs"])])
def test_locks_are_in_step_with_the_project(lock, extras):
    """Every package that pyproject.toml asks for is pinned at a version it allows; `make lock`."""
    ours, dev = pins(lock), pins("dev.lock")
    for requirement in (one for extra in extras for one in wanted(extra)):
        pinned = ours[requirement.name.lower()]
        assert requirement.specifier.contains(pinned, prereleases=True), "make lock"
    assert {name: pin for name, pin in ours.items() if dev.get(name, pin) != pin} == {}


@pytest.mark.parametrize("name", ["run", "as-new-user", "newer-python"])
def test_continuous_check_can_be_run(name):
    """It is a program, and bash finds no fault in how it is written."""
    assert os.access(ROOT / ".ci" / name, os.X_OK)
    subprocess.run(["bash", "-n", ROOT / ".ci" / name], check=True)


def test_the_page_of_installation_is_that_of_the_project():
    """It has each extra that users install, and no other, and the oldest Python."""
    page = (ROOT / "docs" / "start" / "install.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`.*?) \|", page, flags=re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert named == set(PROJECT["optional-dependencies"]) - {"dev", "docs", "portal"}
    assert f"Python {PROJECT['requires-python'].removeprefix('>=')} or newer" in page


def test_version_is_the_same_everywhere():
    """Package, project file and citation name one version."""
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert PROJECT["version"] == hv.__version__
    assert re.search(r"^version: (.+)$", citation, flags=re.MULTILINE)[1] == hv.__version__


def test_addresses_are_no_placeholders_where_it_is_published():
    """HEXVEIL_PUBLISH=1, which whoever uploads the package sets, refuses made-up addresses."""
    placeholders = [url for url in PROJECT["urls"].values() if ".invalid/" in url]
    if os.environ.get("HEXVEIL_PUBLISH"):
        assert placeholders == [], "state the project's addresses in pyproject.toml"
    # A placeholder can never be somebody's: RFC 2606 reserves its ending.
    assert all(url.startswith("https://example.invalid/") for url in placeholders)
