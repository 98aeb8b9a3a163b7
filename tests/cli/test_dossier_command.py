"""`hexveil dossier`: the text on stdout, in a file, or as sections."""

import json

import pytest

from hexveil.publishing.manifest import build_manifest
from publishing.setting import dataset_of, plan_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Stand beside a folder with a release's manifest."""
    monkeypatch.chdir(tmp_path)
    data = dataset_of([[3, 2], [1, 4]], value="speed", value_unit="km/h")
    (tmp_path / "map").mkdir()
    said = build_manifest("buses", data.public, plan_of(data, 1), "0" * 64)
    (tmp_path / "map" / "manifest.json").write_text(json.dumps(said))
    return tmp_path


def test_the_text_goes_to_stdout_or_into_a_file(folder, call):
    """Both are the same bytes; the file replaces one of its name."""
    said = call("dossier", "map")
    assert said.code == 0, said.err
    assert said.out.startswith("# Privacy dossier of release 0000000000000000\n\n")
    assert "[to be filled in by the controller: " in said.out
    (folder / "signed.md").write_text("old")
    written = call("dossier", "map", "--out", "signed.md")
    assert written.code == 0, written.err
    assert "signed.md" in written.out
    assert (folder / "signed.md").read_text() == said.out
    assert {path.name for path in folder.iterdir()} == {"map", "signed.md"}
    assert [path.name for path in (folder / "map").iterdir()] == ["manifest.json"]


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
    assert [path.name for path in (folder / "map").iterdir()] == ["manifest.json"]


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
    for content, words in (("{", "no JSON object"), ('{"schema_version": 1}', "schema version 1")):
        (folder / "map" / "manifest.json").write_text(content)
        said = call("dossier", "map")
        assert said.code == 2
        assert words in said.err
        assert said.err.count("\n") == 1
