"""`hexveil verify`: a recipient's look at a release folder."""

import json
import re

import pytest

from publishing.releases import release_of


@pytest.mark.slow
def test_a_release_passes_and_a_changed_one_does_not(here, call, refuse, okay):
    """Exit 0 with what was checked and what cannot be; exit 2 with what was changed."""
    assert call("release run.toml --set release.accept_noise=true").code == 0
    good = okay("verify map")
    assert "Checked" in good.out
    assert "of buses, entry " in good.out
    assert "Not checked" in good.out
    page = here / "map" / "report.html"
    page.write_text(page.read_text() + " ")
    bad = refuse("verify map")
    assert "report.html was changed" in bad.out
    said = json.loads(call("verify map --json").out)
    assert len(said["problems"]) == 2


def test_a_key_that_cannot_sign_is_refused_before_anything_is_spent(here, call, refuse):
    """A key that others can read, or that is none, is wrong use; the ledger is not made."""
    pytest.importorskip("cryptography")
    assert call("ledger keygen signing.pem").code == 0
    (here / "signing.pem").chmod(0o644)
    for key, sentence in (("signing.pem", "can be read or changed by others"),
                          ("run.toml", "can be read or changed|holds no private"),
                          ("gone.pem", "there is no key file")):  # fmt: skip
        said = refuse(f"release run.toml --set release.accept_noise=true --set release.sign={key}")
        assert re.search(sentence, said.err)
    assert not (here / "ledger.sqlite").exists()
    assert not (here / "map").exists()
    said = refuse("verify map --key gone.pub")
    assert "there is no key file" in said.err


# ---- `hexveil compare` and `hexveil roll-up`: what a recipient makes of folders, at no cost ---


@pytest.mark.slow
def test_wrong_use_is_a_sentence(here, call, refuse):
    """Exit 2, with the place and the remedy, and nothing is written."""
    assert call("release run.toml --set release.accept_noise=true").code == 0
    for words, message in (
        (("compare", "map", "map"), "both are the same release"),
        (("compare", "map", "."), "no manifest.json"),
        (("compare map map --out map",), "map exists, and is never written into"),
        (("roll-up map --resolution all --context x.json",), "name one (--out FOLDER)"),
        (("roll-up", "map"), "needs a coarser grid"),
        (("roll-up map --resolution fine",), "--resolution must be a number"),
        (("roll-up map --timeslot 1d",), "no timeslots"),
    ):
        refused = refuse(words)
        assert message in " ".join(refused.err.split())
    assert {path.name for path in here.iterdir() if path.is_dir()} == {"map"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Stand beside the folder of a release."""
    monkeypatch.chdir(tmp_path)
    release_of(tmp_path / "made", "means").write(tmp_path / "map")
    return tmp_path


def test_the_dossier_goes_to_stdout(folder, call, okay):
    """As text, or as its sections."""
    said = okay("dossier map")
    assert re.match("# Privacy dossier of release [0-9a-f]{16}\n\n", said.out)
    assert "[to be filled in by the controller: " in said.out
    assert json.loads(call("dossier map --json").out)["markdown"].startswith("# ")
