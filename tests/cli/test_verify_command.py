"""`hexveil verify`: a recipient's look at a release folder."""

import json
import re

import pytest


@pytest.mark.slow
def test_a_release_passes_and_a_changed_one_does_not(here, call):
    """Exit 0 with what was checked and what cannot be; exit 2 with what was changed."""
    assert call("release", "run.toml", "--set", "release.accept_noise=true").code == 0
    good = call("verify", "map")
    assert good.code == 0, good.err
    assert "Checked" in good.out
    assert "of buses, entry " in good.out
    assert "Not checked" in good.out
    page = here / "map" / "report.html"
    page.write_text(page.read_text() + " ")
    bad = call("verify", "map")
    assert bad.code == 2
    assert "report.html was changed" in bad.out
    said = json.loads(call("verify", "map", "--json").out)
    assert len(said["problems"]) == 2


def test_what_is_no_release_is_a_sentence(here, call):
    """A folder of something else is wrong use."""
    said = call("verify", ".")
    assert said.code == 2
    assert "no manifest.json" in said.err


@pytest.mark.slow
def test_a_signed_release_is_checked_with_the_holders_key(here, call):
    """keygen, release --sign and verify --key: exit 0 for the holder's folder, 2 for any other."""
    made = call("ledger", "keygen", "signing.pem")
    assert made.code == 0, made.err
    assert "signing.pem.pub" in made.out
    assert (here / "signing.pem").stat().st_mode & 0o777 == 0o600
    assert (
        call(
            "release",
            "run.toml",
            "--set",
            "release.accept_noise=true",
            "--set",
            "release.sign=signing.pem",
        ).code
        == 0
    )
    good = call("verify", "map", "--key", "signing.pem.pub")
    assert good.code == 0, good.out
    assert "by the holder of the key given" in " ".join(good.out.split())
    other = json.loads(call("ledger", "keygen", "other.pem", "--json").out)
    bad = call("verify", "map", "--key", other["public_key"])
    assert bad.code == 2
    assert "not by the one given" in " ".join(bad.out.split())
    (here / "map" / "signature.json").unlink()
    gone = call("verify", "map", "--key", "signing.pem.pub")
    assert gone.code == 2
    assert "signature.json is missing" in gone.out
    unsigned = call("verify", "map")
    assert unsigned.code == 0
    assert "Signature" in unsigned.out
    assert "does not show who made it" in " ".join(unsigned.out.split())


@pytest.mark.slow
def test_a_replay_is_signed_too(here, call):
    """The same request into another folder has the same files and the same signature."""
    assert call("ledger", "keygen", "signing.pem").code == 0
    for out in ("map", "again"):
        arguments = (
            "release",
            "run.toml",
            "--set",
            "release.accept_noise=true",
            "--set",
            "release.sign=signing.pem",
        )
        assert call(*arguments, "--out", out).code == 0
    one, two = ({path.name: path.read_bytes() for path in (here / out).iterdir()}
                for out in ("map", "again"))  # fmt: skip
    assert one == two
    assert "signature.json" in one


def test_a_key_that_cannot_sign_is_refused_before_anything_is_spent(here, call):
    """A key that others can read, or that is none, is wrong use; the ledger is not made."""
    pytest.importorskip("cryptography")
    assert call("ledger", "keygen", "signing.pem").code == 0
    (here / "signing.pem").chmod(0o644)
    for key, sentence in (("signing.pem", "can be read or changed by others"),
                          ("run.toml", "can be read or changed|holds no private"),
                          ("gone.pem", "there is no key file")):  # fmt: skip
        said = call(
            "release",
            "run.toml",
            "--set",
            "release.accept_noise=true",
            "--set",
            f"release.sign={key}",
        )
        assert said.code == 2
        assert re.search(sentence, said.err)
    assert not (here / "ledger.sqlite").exists()
    assert not (here / "map").exists()
    said = call("verify", "map", "--key", "gone.pub")
    assert said.code == 2
    assert "there is no key file" in said.err


@pytest.mark.slow
def test_what_was_recomputed_is_said(here, call):
    """The command tells which losses it computed anew, for people and for machines."""
    assert call("release", "run.toml", "--set", "release.accept_noise=true").code == 0
    said = " ".join(call("verify", "map").out.split())
    assert "Recomputed sum of the losses of 400 users: " in said
    plain = json.loads(call("verify", "map", "--json").out)
    assert set(plain) == {"folder", "problems", "recomputed", "unknown", "signature"}
    assert len(plain["recomputed"]) == 2
