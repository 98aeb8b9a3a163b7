"""A release of each kind: a change that recipients would see is noticed; it is kept as it is."""

import json
import re

import pytest

import golden_releases
import hexveil as hv
from attack import folder_kinds
from hexveil.cli import main

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=golden_releases.kinds())
def made(request, tmp_path_factory):
    """Return the kind of a release, its folder, and what is seen of it."""
    home = tmp_path_factory.mktemp("golden")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "100")
        return request.param, home / request.param, golden_releases.make(home, request.param)


def contents(folder):
    """Return the bytes of each file, those of folders inside too."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_release_looks_as_before(made):
    """Table, page, README.txt and the words of `verify`, under fixed noise."""
    kind, _, found = made
    expected = json.loads((golden_releases.FOLDER / f"{kind}.json").read_text(encoding="utf-8"))
    assert list(golden_releases.differences(expected, found)) == []


def test_a_release_is_replayed_and_loaded_as_it_was_written(made, tmp_path):
    """The same request costs nothing; it and the loaded folder are written byte for byte."""
    kind, folder, _ = made
    again, loaded = folder_kinds.release(folder.parent, kind), hv.load(folder)
    assert again.replayed
    assert loaded.replayed
    assert again.epsilon == loaded.epsilon
    for number, release in enumerate((again, loaded)):
        assert contents(release.write(tmp_path / str(number))) == contents(folder)


def test_a_release_explains_itself_and_asks_for_nothing(made, capsys):
    """It has a dossier; no page of it loads a script, a style or a picture of others."""
    _, folder, _ = made
    assert main(["dossier", str(folder)]) == 0
    assert "Assumptions" in capsys.readouterr().out
    for path in folder.rglob("*.html"):
        page = path.read_text("utf-8")
        html = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
        assert not re.search(r"<script[^>]+src=|@import|url\(\s*['\"]?(?!data:)", html)
        assert not re.findall(r'<(?:img|link|iframe|object|form)[^>]+="(?:https?:)?//', html)
        assert "default-src 'none'" in page


def test_a_changed_word_or_number_is_noticed():
    """Late digits are not."""
    old = {"verify": ["ok 1.25 km/h"]}
    assert not list(golden_releases.differences(old, {"verify": ["ok 1.25000001 km/h"]}))
    for other in ("ok 1.26 km/h", "no 1.25 km/h"):
        assert list(golden_releases.differences(old, {"verify": [other]}))


def test_every_kind_has_its_file():
    """No file is left over either."""
    files = {path.stem for path in golden_releases.FOLDER.iterdir()}
    assert files == set(golden_releases.kinds())
