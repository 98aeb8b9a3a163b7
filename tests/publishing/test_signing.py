"""Signatures of release folders: who made a folder, and that nothing in it was changed since."""

import json
import os
import pickle
import shutil

import pytest

import hexveil as hv
from hexveil.base import optional_packages
from hexveil.publishing import signing
from hexveil.publishing.verification import untrusted_files, verify
from publishing.releases import forge_json, forge_manifest, released, seal


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Return two private keys; the public ones stand beside them."""
    pytest.importorskip("cryptography")
    home = tmp_path_factory.mktemp("keys")
    for name in ("holder", "other"):
        assert signing.generate_key_pair(home / name) == home / f"{name}.pub"
    return home / "holder", home / "other"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, keys):
    """Return a signed release folder."""
    return released(tmp_path_factory.mktemp("signed") / "map", "means", sign=keys[0])


def public(key):
    return key.with_name(f"{key.name}.pub")


def test_a_signed_folder_is_by_the_holder_of_the_key(folder, keys):
    """The right key accepts it; without a key it is said whose it may be, and that it may be."""
    assert hv.verify(folder, key=public(keys[0]))["dataset"]["name"] == "buses"
    verdict = verify.check_folder(folder, key=str(public(keys[0])))
    assert verdict.signature.startswith("by the holder of the key given")
    known = signing.read_verification_key(public(keys[0])).fingerprint
    assert (
        f"by the key {known}, which anybody can have made" in verify.check_folder(folder).signature
    )


def changed_page(place):
    page = place / "report.html"
    page.write_text(page.read_text("utf-8") + " ", "utf-8")
    seal(place)


def changed_signature(change):
    return forge_json(signing.NAME, change)


FORGED = {
    "a page changed under a new receipt": (changed_page, "is not of these files"),
    "a statement changed": (
        lambda place: forge_manifest(place, lambda said: said["rules"].update(extra=1)),
        "is not of these files",
    ),
    "a file taken away": (
        lambda p: [(p / "README.txt").unlink(), seal(p)], "is not of these files",
    ),
    "a file of another name": (
        lambda p: [(p / "README.txt").rename(p / "READMF.txt"), seal(p)], "is not of these files",
    ),
    "the receipt changed": (
        lambda p: (p / "receipt.json").write_text((p / "receipt.json").read_text() + " "),
        "is not of these files",
    ),
    "an unknown version": (
        changed_signature(lambda said: said.update(signature_version=2)), "does not know",
    ),
    "another algorithm": (
        changed_signature(lambda said: said.update(algorithm="none")), "holds no signature",
    ),
    "no JSON": (lambda place: (place / signing.NAME).write_text("{"), "cannot be read as JSON"),
    "no signature": (lambda place: (place / signing.NAME).unlink(), "signature.json is missing"),
}  # fmt: skip


@pytest.mark.parametrize("forged", FORGED)
def test_a_change_breaks_the_signature(folder, keys, tmp_path, forged):
    """Whatever is changed, also under a new receipt, ends in a sentence."""
    forge, sentence = FORGED[forged]
    place = shutil.copytree(folder, tmp_path / "map")
    forge(place)
    found = verify.find_problems(place, key=public(keys[0]))
    assert any(sentence in one for one in found), found


def test_another_key_is_not_the_holders(folder, keys, tmp_path):
    """A folder that another signs, also anew with a key of its own, is not the holder's."""
    (found,) = verify.find_problems(folder, key=public(keys[1]))
    assert "not by the one given" in found
    place = shutil.copytree(folder, tmp_path / "map")
    signing.read_signing_key(keys[1]).write(place)
    assert verify.find_problems(place) == ()
    (found,) = verify.find_problems(place, key=public(keys[0]))
    assert "the holder of that key did not sign" in found

    def claims(said):
        said["public_key"] = json.loads((folder / signing.NAME).read_text())["public_key"]

    changed_signature(claims)(place)
    (found,) = verify.find_problems(place, key=public(keys[0]))
    assert "is not of these files" in found


def test_what_is_signed_is_unambiguous():
    """Names and checksums that could be read in two ways make two texts."""
    one, two = "ab" * 32, "cd" * 32
    texts = [
        signing.signed_message(files)
        for files in ({"a": one, "b": two}, {"a": two, "b": one}, {"ab": one}, {"a": one}, {})
    ]
    assert len(set(texts)) == len(texts)
    assert signing.signed_message({"b": two, "a": one}) == texts[0]
    assert texts[-1] == b"hexveil release folder 1\0" + bytes(8)


def test_a_private_key_is_its_owners_alone(keys, tmp_path):
    """It is written so, and refused where others can read or change it; it is never shown."""
    private = keys[0]
    assert private.stat().st_mode & 0o777 == 0o600
    signer = signing.read_signing_key(private)
    secret = private.read_text().splitlines()[1]
    assert secret not in repr(signer)
    assert signer.fingerprint in repr(signer)
    with pytest.raises(hv.InputError, match="not pickled"):
        pickle.dumps(signer)
    for mode in (0o640, 0o604, 0o620, 0o602):
        copy = tmp_path / f"key-{mode:o}"
        copy.write_bytes(private.read_bytes())
        copy.chmod(mode)
        with pytest.raises(hv.InputError, match="can be read or changed by others"):
            signing.read_signing_key(copy)


def test_a_key_is_never_replaced(keys):
    """An existing file, private or public, stays."""
    with pytest.raises(hv.InputError, match="a key is never replaced"):
        signing.generate_key_pair(keys[0])
    with pytest.raises(hv.InputError, match="a key is never replaced"):
        signing.generate_key_pair(keys[0].with_name("holder.pub"))


def test_what_is_no_key_is_refused(keys, tmp_path):
    """A missing file, a folder, a pipe, another text and the other half each get a sentence."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "text").write_text("key")
    (tmp_path / "text").chmod(0o600)
    with pytest.raises(hv.InputError, match="there is no key file"):
        signing.read_verification_key(tmp_path / "gone")
    for name, sentence in (("", "is not a file"), ("pipe", "is not a file"), ("text", "holds no")):
        for read in (signing.read_signing_key, signing.read_verification_key):
            with pytest.raises(hv.InputError, match=f"{sentence}|cannot be read"):
                read(tmp_path / name)
    with pytest.raises(hv.InputError, match="holds no public signing key"):
        signing.read_verification_key(keys[0])
    shutil.copy(public(keys[0]), tmp_path / "public")
    (tmp_path / "public").chmod(0o600)
    with pytest.raises(hv.InputError, match="holds no private signing key"):
        signing.read_signing_key(tmp_path / "public")


def test_without_the_package_it_is_said(folder, keys, monkeypatch):
    """Whoever has not installed it learns that the signature was not checked, and how to."""
    for module in (optional_packages, untrusted_files):
        monkeypatch.setattr(module, "is_installed", lambda _: False)
    verdict = verify.check_folder(folder)
    assert verdict.problems == ()
    assert 'not checked: pip install "hexveil[signing]"' in verdict.signature
    for use in (lambda: verify.find_problems(folder, key=public(keys[0])),
                lambda: signing.read_signing_key(keys[0]),
                lambda: signing.generate_key_pair(keys[0])):  # fmt: skip
        with pytest.raises(hv.InputError, match="cryptography is not installed"):
            use()
