"""Signatures of release folders: who made a folder, and that nothing in it was changed since."""

import base64
import importlib.util
import json
import os
import shutil

import pytest

import hexveil as hv
from publishing.releases import (
    called,
    digest_of,
    forge_json,
    forge_manifest,
    problems_of,
    release_of,
    released,
    seal,
    verdict_of,
)

SIGNATURE = "signature.json"


def generated(place):
    """Make a key pair, and return what the command says of it."""
    return json.loads(called("ledger", "keygen", place, "--json"))


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Return two private keys; the public ones stand beside them."""
    pytest.importorskip("cryptography")
    home = tmp_path_factory.mktemp("keys")
    for name in ("holder", "other"):
        assert generated(home / name)["public_key"] == str(home / f"{name}.pub")
    return home / "holder", home / "other"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, keys):
    """Return a signed release folder."""
    return released(tmp_path_factory.mktemp("signed") / "map", "means", sign=keys[0])


def public(key):
    """Return the file of the public key."""
    return key.with_name(f"{key.name}.pub")


def test_a_signed_folder_is_by_the_holder_of_the_key(folder, keys):
    """The right key accepts it; without a key it is said whose it may be, and that it may be."""
    assert hv.verify(folder, key=public(keys[0]))["dataset"]["name"] == "buses"
    told = verdict_of(folder, key=public(keys[0]))["signature"]
    known = told.removeprefix("by the holder of the key given (").removesuffix(").")
    assert set(known) <= set("0123456789abcdef")
    assert f"by the key {known}, which anybody can have made" in verdict_of(folder)["signature"]


def changed_page(place):
    page = place / "report.html"
    page.write_text(page.read_text("utf-8") + " ", "utf-8")
    seal(place)


def changed_signature(change):
    return forge_json(SIGNATURE, change)


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
    "no JSON": (lambda place: (place / SIGNATURE).write_text("{"), "cannot be read as JSON"),
    "no signature": (lambda place: (place / SIGNATURE).unlink(), "signature.json is missing"),
}  # fmt: skip


@pytest.mark.parametrize("forged", FORGED)
def test_a_change_breaks_the_signature(folder, keys, tmp_path, forged):
    """Whatever is changed, also under a new receipt, ends in a sentence."""
    forge, sentence = FORGED[forged]
    place = shutil.copytree(folder, tmp_path / "map")
    forge(place)
    found = problems_of(place, key=public(keys[0]))
    assert any(sentence in one for one in found), found


def test_another_key_is_not_the_holders(folder, keys, tmp_path):
    """A folder that another signs, also anew with a key of its own, is not the holder's."""
    (found,) = problems_of(folder, key=public(keys[1]))
    assert "not by the one given" in found
    place = hv.load(folder).write(tmp_path / "map", sign=keys[1])
    assert problems_of(place) == ()
    (found,) = problems_of(place, key=public(keys[0]))
    assert "the holder of that key did not sign" in found

    def claims(said):
        said["public_key"] = json.loads((folder / SIGNATURE).read_text())["public_key"]

    changed_signature(claims)(place)
    (found,) = problems_of(place, key=public(keys[0]))
    assert "is not of these files" in found


def test_what_is_signed_is_unambiguous(folder):
    """The purpose, then each name with its length before it, and its checksum, in their order."""
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415  an extra

    files = sorted(path for path in folder.iterdir() if path.name != SIGNATURE)
    text = b"hexveil release folder 1\0" + len(files).to_bytes(8, "big")
    for path in files:
        name = path.name.encode()
        text += len(name).to_bytes(8, "big") + name + bytes.fromhex(digest_of(path))
    stated = json.loads((folder / SIGNATURE).read_text())
    key, signature = (base64.b64decode(stated[name]) for name in ("public_key", "signature"))
    assert ed25519.Ed25519PublicKey.from_public_bytes(key).verify(signature, text) is None


def test_a_private_key_is_its_owners_alone(folder, keys, tmp_path):
    """It is written so, and refused where others can read or change it; it is never shown."""
    private = tmp_path / "new"
    said = generated(private)
    assert private.stat().st_mode & 0o777 == 0o600
    assert private.read_text().splitlines()[1] not in json.dumps(said)
    secret = keys[0].read_text().splitlines()[1].encode()
    assert [path.name for path in folder.iterdir() if secret in path.read_bytes()] == []
    release = hv.load(folder)
    for mode in (0o640, 0o604, 0o620, 0o602):
        copy = tmp_path / f"key-{mode:o}"
        copy.write_bytes(private.read_bytes())
        copy.chmod(mode)
        with pytest.raises(hv.InputError, match="can be read or changed by others"):
            release.write(tmp_path / "map", sign=copy)


def test_a_key_is_never_replaced(keys):
    """An existing file, private or public, stays."""
    with pytest.raises(hv.InputError, match="a key is never replaced"):
        generated(keys[0])
    with pytest.raises(hv.InputError, match="a key is never replaced"):
        generated(keys[0].with_name("holder.pub"))


def test_what_is_no_key_is_refused(folder, keys, tmp_path):
    """A missing file, a folder, a pipe, another text and the other half each get a sentence."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "text").write_text("key")
    (tmp_path / "text").chmod(0o600)
    release = hv.load(folder)

    def sign(key):
        release.write(tmp_path / "map", sign=key)

    def verify(key):
        hv.verify(folder, key=key)

    with pytest.raises(hv.InputError, match="there is no key file"):
        verify(tmp_path / "gone")
    for name, sentence in (("", "is not a file"), ("pipe", "is not a file"), ("text", "holds no")):
        for read in (sign, verify):
            with pytest.raises(hv.InputError, match=f"{sentence}|cannot be read"):
                read(tmp_path / name)
    with pytest.raises(hv.InputError, match="holds no public signing key"):
        verify(keys[0])
    shutil.copy(public(keys[0]), tmp_path / "public")
    (tmp_path / "public").chmod(0o600)
    with pytest.raises(hv.InputError, match="holds no private signing key"):
        sign(tmp_path / "public")


def test_without_the_package_it_is_said(folder, keys, tmp_path, monkeypatch):
    """Whoever has not installed it learns that the signature was not checked, and how to."""
    release = release_of(tmp_path / "map", "means")

    def found(name, *more, real=importlib.util.find_spec):
        return None if name == "cryptography" else real(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", found)
    verdict = verdict_of(folder)
    assert verdict["problems"] == []
    assert 'not checked: pip install "hexveil[signing]"' in verdict["signature"]
    for use in (lambda: problems_of(folder, key=public(keys[0])),
                lambda: release.write(tmp_path / "map", sign=keys[0]),
                lambda: generated(keys[0])):  # fmt: skip
        with pytest.raises(hv.InputError, match="cryptography is not installed"):
            use()
