"""The built package: what it holds, that it builds the same twice, that it installs and works.

On every Python of the machine it is installed from the index that pip is set to, at the versions of
the lock file. For an extra alone an environment is made of links: of the wheel, unpacked, and of
the packages of this environment that the extra and what it needs name in their metadata.
"""

import functools
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import hexveil
from publishing import releases
from source_trees import ROOT

pytestmark = pytest.mark.install
SMOKE = Path(__file__).with_name("package_smoke.py")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = set(PROJECT["optional-dependencies"]) - {"dev"}
UNREACHED = re.compile("(?i)error sending request|dns error|timed out|failed to fetch")
NO_SKIP = bool(os.environ.get("HEXVEIL_NO_SKIP"))
OLDEST = 11
TRIED = ("3.11", "3.12", "3.13", "3.14")
"""Versions of Python that the package is known to run on; a newer one is tried where it is."""
THIS = f"3.{sys.version_info.minor}"


def missing(reason):
    """Skip with a reason, or fail where nothing may be skipped."""
    (pytest.fail if NO_SKIP else pytest.skip)(reason)


@functools.cache
def environment():
    """Return the environment for uv, with links for what it installs."""
    given = runpy.run_path(str(ROOT / "tools" / "uv.py"))["environment"]()
    return {"UV_LINK_MODE": "symlink"} | given


def uv(*arguments):
    """Run uv; return what came of it."""
    command = [sys.executable, "-m", "uv", "--quiet", *map(str, arguments)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)


@functools.cache
def interpreters():
    """Return a Python of each version on the machine, no shim; of this version, this one."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = {}
    for minor in range(OLDEST, OLDEST + 10):
        name = f"python3.{minor}"
        places = [shutil.which(name), *sorted(pyenv.glob(f"3.{minor}.*/bin/{name}"))]
        # A name on the path can be a shim of a version that is not chosen.
        for python in filter(None, places):
            if "shims" not in Path(python).parts:
                found[f"3.{minor}"] = str(python)
    return found | {THIS: sys.executable}


def build(tree, out, kind):
    """Return the file that is built of a tree, by the build backend of this environment."""
    done = uv("build", f"--{kind}", "--no-build-isolation", "--out-dir", out, tree)
    assert done.returncode == 0, done.stderr
    (file,) = (*out.glob("*.whl"), *out.glob("*.tar.gz"))
    return file


@pytest.fixture(scope="module")
def builds(tmp_path_factory):
    """Return wheel and sdist, built twice of what an sdist holds: in other folders, of other times.

    Of that sdist, which this tree is built into, nothing else is looked at.
    """
    home = tmp_path_factory.mktemp("builds")
    first, made = build(ROOT, home / "first", "sdist"), []
    for time in (1_700_000_000, 1_600_000_000):
        with tarfile.open(first) as packed:
            packed.extractall(home / str(time), filter="data")
        (root,) = (home / str(time)).iterdir()
        for path in root.rglob("*"):
            os.utime(path, (time, time))
        out = home / f"of {time}"
        made.append({kind: build(root, out / kind, kind) for kind in ("wheel", "sdist")})
    return made


@pytest.fixture(scope="module")
def built(builds):
    """Return wheel and sdist."""
    return builds[0]


@pytest.fixture
def fresh(tmp_path):
    """Return what makes a new environment of an interpreter and returns the interpreter in it."""

    def made(python):
        assert uv("venv", "--python", python, tmp_path / "venv").returncode == 0
        return tmp_path / "venv" / "bin" / "python"

    return made


@pytest.fixture(scope="module")
def unzipped(built, tmp_path_factory):
    """Return the folder of what the wheel holds: modules are compiled there once."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.unpack_archive(built["wheel"], folder, "zip")
    return folder


def needed(*extras):
    """Return the packages here that the base install and extras need, by their metadata."""
    done, waiting = set(), [("hexveil", extra) for extra in ("", *extras)]
    while waiting:
        asked = waiting.pop()
        if asked not in done:
            done.add(asked)
            try:
                lines = metadata.requires(asked[0]) or ()
            except metadata.PackageNotFoundError:
                missing(f"{asked[0]} is not installed here")
            for one in map(Requirement, lines):
                if one.marker is None or one.marker.evaluate({"extra": asked[1]}):
                    waiting += [(one.name, extra) for extra in ("", *one.extras)]
    return {name for name, _ in done} - {"hexveil"}


def link(inside, unzipped, names):
    """Link the package and others into an environment."""
    (into,) = (inside.parents[1] / "lib").glob("python*/site-packages")
    found = list(unzipped.iterdir())
    for name in names:
        files = [
            file for file in metadata.files(name) if file.parts[0] not in ("..", "__pycache__")
        ]
        tops = {file.locate().parents[len(file.parts) - 2] for file in files if len(file.parts) > 1}
        found += [*tops, *(file.locate() for file in files if len(file.parts) == 1)]
    for path in found:
        # Packages may share a folder that is no package itself: each has its own part of it.
        shared = path.is_dir() and not (path / "__init__.py").exists()
        for one in path.iterdir() if shared else [path]:
            place = into / path.name / one.name if shared else into / one.name
            place.parent.mkdir(exist_ok=True)
            if not place.exists():
                place.symlink_to(one)


@pytest.fixture
def work(made, tmp_path):
    """Return a folder with a release of somebody else's."""
    shutil.copytree(made, tmp_path / "work" / "map")
    return tmp_path / "work"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a release folder of hexagons, made once."""
    return releases.released(tmp_path_factory.mktemp("made") / "map", "means", mapped=True)


def smoke(python, folder, *jobs):
    """Do jobs of package_smoke.py in a folder; return what failed, "" if nothing did.

    The interpreter knows nothing but its environment. Jobs are functions that assert.
    """
    command = [python, "-I", SMOKE, *jobs]
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    return (done.stdout + done.stderr or f"ended with {done.returncode}") * (done.returncode != 0)


@pytest.mark.parametrize("version", interpreters())
def test_the_core_works_where_it_is_installed(tmp_path, built, fresh, work, version):
    """On every Python of the machine: read, plan, release; here also what is said of extras."""
    python, pins = fresh(interpreters()[version]), tmp_path / "pins.txt"
    lock = (ROOT / "requirements/dev.lock").read_text("utf-8")
    pins.write_text("\n".join(re.findall(r"^([a-z0-9].*?)(?: \\)?$", lock, re.MULTILINE)))
    wheel = f"hexveil[publish] @ {built['wheel'].as_uri()}"
    done = uv("pip", "install", "--python", python, "-c", pins, wheel)
    if done.returncode and UNREACHED.search(done.stderr):
        missing("the package index cannot be reached")
    assert done.returncode == 0, done.stderr
    assert smoke(python, work, "core", *["alone"] * (version == THIS)) == ""


def test_a_recipient_needs_no_extra(fresh, unzipped, work):
    """The base install, of 250 MB, loads, verifies, compares and rolls up; its extra is named."""
    assert not needed() & {"arro3-core", "duckdb", "h3ronpy", "opendp", "scipy", "sqlalchemy"}
    files = {file.locate() for name in needed() for file in metadata.files(name)}
    bare = [file for file in files if file.suffix != ".pyc" and file.exists()]
    assert sum(file.stat().st_size for file in bare) < 245_000_000
    python = fresh(sys.executable)
    link(python, unzipped, needed())
    assert smoke(python, work, "reader") == ""


@pytest.mark.parametrize("extra", sorted(EXTRAS - {"publish"}))
def test_each_extra_alone_works(fresh, unzipped, work, extra):
    """An extra brings all that it needs and no other extra is needed for it."""
    python = fresh(sys.executable)
    link(python, unzipped, needed("publish", extra))
    assert smoke(python, work, extra) == ""


def names(file):
    """Return the names in a wheel or an sdist."""
    if file.suffix == ".whl":
        return set(zipfile.ZipFile(file).namelist())
    with tarfile.open(file) as packed:
        return {name.partition("/")[2] for name in packed.getnames()}


def sources():
    """Return every file of the package, by its path in a wheel."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = {Path(line).relative_to("src").as_posix() for line in listed.stdout.splitlines()}
    return {name for name in found if (ROOT / "src" / name).exists()}


def test_the_wheel_holds_the_package_and_nothing_else(built):
    """Modules, assets, schema, the mark of types, licence and metadata; no test, no benchmark."""
    held = names(built["wheel"])
    info = f"hexveil-{hexveil.__version__}.dist-info"
    beside = {name for name in held if name.startswith(info)}
    assert {"hexveil/py.typed", "hexveil/publishing/manifest.schema.json"} <= held
    texts = {"promise.txt", "moments/readme.md", "report.html", "page/statement.html"}
    assert {f"hexveil/publishing/templates/{name}" for name in texts} <= held
    assert {name.rpartition("/")[2] for name in beside} == {
        "METADATA", "WHEEL", "RECORD", "LICENSE", "entry_points.txt",
    }  # fmt: skip
    assert held - beside == sources() or not sources()
    assert all(name.startswith(("hexveil/", "hexveil_research/")) for name in held - beside)


def test_the_sdist_can_be_tested_and_built(built):
    """Sources, tests, pages, benchmarks and lock files are there; nothing that git leaves out."""
    held = names(built["sdist"])
    assert {"LICENSE", "README.md", "pyproject.toml", "requirements/dev.lock", "Makefile"} <= held
    assert {"tests/conftest.py", "tests/test_docs.py", "benchmarks/reading.py"} <= held
    assert any(name.startswith("docs/") for name in held)
    assert {name for name in held if "__pycache__" in name or name.startswith(".venv")} == set()


def test_builds_are_the_same_bytes(builds):
    """The same sources in another folder at another time give the same files, byte for byte."""
    once, again = ({one.name: one.read_bytes() for one in of.values()} for of in builds)
    assert once == again


def test_metadata_says_what_is_true(built):
    """Name, licence, Python, readme and extras are those of the project."""
    with zipfile.ZipFile(built["wheel"]) as packed:
        (name,) = (one for one in packed.namelist() if one.endswith("METADATA"))
        text = packed.read(name).decode()
    head = text.partition("\n\n")[0]
    fields = [line.partition(": ")[::2] for line in head.splitlines()]
    assert ("Name", "hexveil") in fields
    assert ("License-Expression", "Apache-2.0") in fields
    assert ("Requires-Python", ">=3.11") in fields
    assert ("Description-Content-Type", "text/markdown") in fields
    assert {value for key, value in fields if key == "Provides-Extra"} >= set(EXTRAS)
    addresses = [value for key, value in fields if key == "Project-URL"]
    assert addresses == [f"{name}, {url}" for name, url in PROJECT["urls"].items()]
    named = {value for key, value in fields if key == "Classifier"}
    assert {f"Programming Language :: Python :: {version}" for version in TRIED} <= named
