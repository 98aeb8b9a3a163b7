"""The pages of the root say what is there: files, targets, the version, the picture."""

import re

import pytest

import hexveil as hv
from source_trees import ROOT

PACKAGE = ROOT / "src" / "hexveil"
FOLDERS = sorted(p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__")


def page(name):
    """Return the text of a page of the root."""
    return (ROOT / name).read_text(encoding="utf-8")


def paths(line):
    """Return what a line names in backquotes as a file or a folder."""
    return re.findall(r"`([\w./*-]+(?:\.(?:py|md|toml|json|yml)|/))`", line)


def found(name, folders):
    """Return whether a path is of the root, of the package, or of a folder named beside it."""
    return any(any(folder.glob(name)) for folder in (ROOT, PACKAGE, *folders))


def missing(line):
    """Return the paths of a line that lead nowhere."""
    named = [path for path in paths(line) if "/" in path]
    near = [base / path for path in named for base in (ROOT, PACKAGE)]
    beside = [path if path.is_dir() else path.parent for path in near]
    return [path for path in paths(line) if not found(path.rstrip("/"), beside)]


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_path_is_there(name):
    """Every file and folder that a page names exists, in the root, the package or beside it."""
    lines = page(name).splitlines()
    assert any(paths(line) for line in lines)
    assert [path for line in lines for path in missing(line)] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_of_the_package_is_on_the_map(folder):
    """ARCHITECTURE names each folder of the package."""
    assert re.search(rf"\b{folder}/", page("ARCHITECTURE.md"))


def test_files_beside_the_folders_are_on_the_map():
    """ARCHITECTURE lists the modules that stand beside the folders."""
    beside = {p.stem for p in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    (listed,) = re.findall(
        r"modules (`[a-z_]+` and `[a-z_]+`) stand beside the folders", page("ARCHITECTURE.md")
    )
    assert set(re.findall(r"[a-z_]+(?=`)", listed)) == beside


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_make_targets_are_in_the_makefile(name):
    """Every `make` target that a page names is one."""
    targets = set(re.findall(r"^([a-z]+):.*## ", page("Makefile"), flags=re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", page(name), flags=re.MULTILINE))
    assert named <= targets


def test_the_change_log_knows_this_version():
    """What is not released yet stands on top, or this version does."""
    top = re.search(r"^## \[(.+?)\]", page("CHANGELOG.md"), flags=re.MULTILINE)[1]
    assert top == hv.__version__ or f"## [{top}] (unreleased)" in page("CHANGELOG.md")


def test_the_first_screen_of_the_readme():
    """Picture, promise, limits, commands and Python come in this order, before anything else."""
    text = page("README.md")
    heads = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    assert heads[:3] == ["What is protected, and what is not", "Try it", "Ten lines of Python"]
    assert text.index("![") < text.index("**Protected:") < text.index("**Not protected")
    first = text.partition("## Where next")[0]
    assert len(first.splitlines()) <= 45
    assert first.count("](") <= 12


def test_the_citation_has_the_four_papers():
    """The citation names each of the papers by its title, as the errata's sources are four."""
    titles = re.findall(r'^    title: "(.+)"$', page("CITATION.cff"), flags=re.MULTILINE)
    assert len(set(titles)) == page("CITATION.cff").count("- type: article") == 4


def test_the_map_fits_on_a_page():
    """The table of places has at most 30 lines, each with at most three paths."""
    rows = [line for line in page("ARCHITECTURE.md").splitlines() if line.startswith("| ")][1:]
    assert 20 < len(rows) <= 30
    assert all(len(paths(row)) <= 3 for row in rows)
