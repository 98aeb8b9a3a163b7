"""`hexveil dossier`: the text on stdout, in a file, or as sections."""

import json
import re

import pytest

from publishing.releases import release_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Stand beside the folder of a release."""
    monkeypatch.chdir(tmp_path)
    release_of(tmp_path / "made", "means").write(tmp_path / "map")
    return tmp_path


def test_the_text_goes_to_stdout_or_into_a_file(folder, call):
    """Both are the same bytes; the file replaces one of its name."""
    said = call("dossier", "map")
    assert said.code == 0, said.err
    assert re.match("# Privacy dossier of release [0-9a-f]{16}\n\n", said.out)
    assert "[to be filled in by the controller: " in said.out
    (folder / "signed.md").write_text("old")
    written = call("dossier", "map", "--out", "signed.md")
    assert written.code == 0, written.err
    assert "signed.md" in written.out
    assert (folder / "signed.md").read_text() == said.out
    assert call("verify", "map").code == 0


def test_sections_for_machines(folder, call):
    """--json prints the sections, also beside a file."""
    said = call("dossier", "map", "--json", "--out", "a.md")
    found = json.loads(said.out)
    assert found["sections"][0]["title"] == "What is protected, and from whom"
    assert (folder / "a.md").is_file()


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("a.txt", "must name a file that ends in .md"),
        ("gone/a.md", "there is no folder gone"),
        ("map/a.md", "is in the release folder"),
        ("dir.md", "is a folder"),
    ],
)
def test_files_that_cannot_be_are_refused(folder, call, out, words):
    """Each is one sentence and exit 2, and nothing is written."""
    (folder / "dir.md").mkdir()
    said = call("dossier", "map", "--out", out)
    assert said.code == 2
    assert words in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert call("verify", "map").code == 0


def test_a_disk_that_fails_is_said_so(folder, call, monkeypatch):
    """A file that cannot be written is exit 1, without a traceback."""

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hexveil.base.atomic_files.write", full)
    said = call("dossier", "map", "--out", "a.md")
    assert said.code == 1
    assert "a.md cannot be written (No space left on device)" in said.err


def test_bad_folders_are_wrong_use(folder, call):
    """No release, a broken one and one of another version end with exit 2 and one sentence."""
    assert "no manifest.json" in call("dossier", ".").err
    other = ('{"schema_version": 1}', "schema version 1")
    for content, words in (("{", "cannot be read as JSON"), other):
        (folder / "map" / "manifest.json").write_text(content)
        said = call("dossier", "map")
        assert said.code == 2
        assert words in said.err
        assert said.err.count("\n") == 1
