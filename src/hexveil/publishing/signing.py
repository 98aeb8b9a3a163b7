"""Signatures of release folders: proof of their holder, beside their content.

A receipt's checksums find damage; whoever changes a file on purpose writes a new receipt. A
signature of the holder's private key cannot be written anew. It is Ed25519 (RFC 8032), by the
`cryptography` package, and stands in a file of its own, signature.json, beside what it signs:

    "hexveil release folder 1", a zero byte, the number of files (8 bytes, big-endian), and for each
    file, in the order of their names' bytes: the length of its name in UTF-8 (8 bytes), the name,
    and the SHA-256 of its content (32 bytes)

of all files but signature.json, the receipt among them. Lengths come first, so that no two folders
have the same text. Ed25519 draws nothing: the same files under the same key have the same signature
whenever they are written, so a replay's folder is the first one to the byte.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexveil.base import atomic_files
from hexveil.base.errors import InputError, StorageError
from hexveil.base.optional_packages import require_package
from hexveil.publishing import receipt

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

NAME = "signature.json"
VERSION = 1
ALGORITHM = "Ed25519"
PURPOSE = b"hexveil release folder 1\0"
MAX_KEY_FILE = 10_000
"""Bytes of a key file at most."""
PUBLIC_SUFFIX = ".pub"
_OPEN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)


@dataclass(frozen=True)
class SigningKey:
    """A private key that signs release folders; its repr shows the fingerprint alone.

    Attributes
    ----------
    fingerprint : str
        Fingerprint of its public key.
    """

    fingerprint: str
    _key: Ed25519PrivateKey = field(repr=False)

    def __reduce__(self) -> tuple[object, ...]:
        raise InputError("a signing key is not pickled; read its file where it is used.")

    def write(self, folder: Path) -> Path:
        """Write the signature of all files in a folder."""
        digests = receipt.list_digests(folder)
        files = {name: digest for name, digest in digests.items() if name != NAME}
        path = folder / NAME
        path.write_text(self.signature_text(files), "utf-8")
        return path

    def signature_text(self, files: Mapping[str, str]) -> str:
        """Return the content of signature.json for files with these checksums."""
        content = {
            "signature_version": VERSION,
            "algorithm": ALGORITHM,
            "public_key": _encode(self._key.public_key().public_bytes_raw()),
            "signature": _encode(self._key.sign(signed_message(files))),
        }
        return json.dumps(content, indent=2) + "\n"


@dataclass(frozen=True)
class VerificationKey:
    """A public key that signatures are checked with.

    Attributes
    ----------
    fingerprint : str
        Fingerprint of the key.
    """

    fingerprint: str
    _key: Ed25519PublicKey = field(repr=False)

    def accepts(self, signature: bytes, signature_text: bytes) -> bool:
        """Return whether a signature is of this text and by this key."""
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  an extra

        try:
            self._key.verify(signature, signature_text)
        except InvalidSignature:
            return False
        return True


def signed_message(files: Mapping[str, str]) -> bytes:
    """Return the signed bytes: an unambiguous text of names and checksums (module head).

    Parameters
    ----------
    files : mapping of str to str
        Checksum of each file as hex text, by its name.
    """
    digests = sorted((name.encode(), bytes.fromhex(digest)) for name, digest in files.items())
    # The purpose comes first, so that a signature made for something else never fits.
    fields = [PURPOSE, len(digests).to_bytes(8, "big")]
    for name, digest in digests:
        fields += [len(name).to_bytes(8, "big"), name, digest]
    return b"".join(fields)


# ---- keys ----


def generate_key_pair(path: Path) -> Path:
    """Write a new key pair and return the path of the public one.

    The private key stands in `path` (PEM, readable by its owner alone), the public one beside it
    in a file of the same name and `.pub`.

    Raises
    ------
    InputError
        If one of the files exists, or the package that makes keys is not installed.
    StorageError
        If they cannot be written.
    """
    require_package("cryptography", "signing")
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  an extra
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415

    public = path.with_name(path.name + PUBLIC_SUFFIX)
    for file in (path, public):
        if file.exists() or file.is_symlink():
            raise InputError(f"{file} exists, and a key is never replaced; name a new file.")
    key = ed25519.Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )  # fmt: skip
    published = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )  # fmt: skip
    try:
        atomic_files.write(path, secret, mode=0o600)
        atomic_files.write(public, published)
    except OSError as error:
        raise StorageError(
            f"the key cannot be written to {path} ({atomic_files.reason(error)}); name another "
            f"file."
        ) from None
    return public


def read_signing_key(path: str | Path) -> SigningKey:
    """Return the private key that a file holds.

    Raises
    ------
    InputError
        If there is no such file, others than its owner can read it, or it holds no private key of
        Ed25519.
    """
    key = _read_key(Path(path), private=True)
    return SigningKey(fingerprint(key.public_key().public_bytes_raw()), key)


def read_verification_key(path: str | Path) -> VerificationKey:
    """Return the public key that a file holds.

    Raises
    ------
    InputError
        If there is no such file, or it holds no public key of Ed25519.
    """
    key = _read_key(Path(path), private=False)
    return VerificationKey(fingerprint(key.public_bytes_raw()), key)


def _read_key(path: Path, *, private: bool) -> Any:  # noqa: ANN401  of an extra
    """Return the private or the public key that a file holds."""
    require_package("cryptography", "signing")
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415  an extra
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415

    content, key = _read_key_file(path, private=private), None
    with contextlib.suppress(ValueError, TypeError, UnsupportedAlgorithm):
        key = (
            serialization.load_pem_private_key(content, password=None)
            if private
            else serialization.load_pem_public_key(content)
        )
    if not isinstance(key, ed25519.Ed25519PrivateKey if private else ed25519.Ed25519PublicKey):
        kind, remedy = "public", f"ask the holder for the file that ends in {PUBLIC_SUFFIX}"
        if private:
            kind, remedy = "private", "hexveil ledger keygen creates one"
        raise InputError(f"{path} holds no {kind} signing key; {remedy}.")
    return key


def fingerprint(public: bytes) -> str:
    """Return the fingerprint of a public key: SHA-256 of its 32 bytes, shortened."""
    return hashlib.sha256(public).hexdigest()[:16]


def _read_key_file(path: Path, *, private: bool) -> bytes:
    """Return the bytes of a key file; of a private one, only if it is its owner's alone."""
    try:
        with os.fdopen(os.open(path, _OPEN), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError(f"{path} is not a file; name the file of a key.")
            # Other systems have no such bits to check.
            if private and os.name == "posix" and status.st_mode & 0o077:
                raise InputError(
                    f"{path} can be read or changed by others than its owner, so a signature with "
                    "it proves nothing; restrict the file (chmod 600), or create a new key if "
                    "others may have read it."
                )
            return file.read(MAX_KEY_FILE)
    except FileNotFoundError:
        raise InputError(f"there is no key file {path}; check the name.") from None
    except OSError as error:
        raise InputError(
            f"the key file {path} cannot be read ({atomic_files.reason(error)}); name another."
        ) from None


# ---- verification ----


def find_problem(content: Any, files: Mapping[str, str], key: VerificationKey | None) -> str | None:  # noqa: ANN401
    """Return why a signature does not hold; None if it does.

    Parameters
    ----------
    content : object
        Content of signature.json.
    files : mapping of str to str
        SHA-256 of each other file of the folder, as it is there.
    key : VerificationKey or None
        The holder's key; None takes the key named in the signature, which proves only that the
        signer had it.
    """
    version = content.get("signature_version") if isinstance(content, dict) else None
    if version != VERSION or isinstance(version, bool):
        return (
            f"{NAME} has a version that this program does not know (it reads {VERSION}); use a "
            "newer hexveil."
        )
    public, signature = _decode(content, "public_key"), _decode(content, "signature")
    if content.get("algorithm") != ALGORITHM or len(public) != 32 or len(signature) != 64:
        return f"{NAME} holds no signature of {ALGORITHM}."
    if key is not None and fingerprint(public) != key.fingerprint:
        return (
            f"{NAME} is by the key {fingerprint(public)}, not by the one given "
            f"({key.fingerprint}): the holder of that key did not sign this folder."
        )
    if not (key or _key_of(public)).accepts(signature, signed_message(files)):
        return f"{NAME} is not of these files: a file was changed, added or removed."
    return None


def _key_of(public: bytes) -> VerificationKey:
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415  an extra

    return VerificationKey(fingerprint(public), ed25519.Ed25519PublicKey.from_public_bytes(public))


def stated_fingerprint(content: Any) -> str:  # noqa: ANN401  JSON
    """Return the fingerprint of the key named in a signature."""
    return fingerprint(_decode(content, "public_key"))


def _decode(content: Mapping[str, Any], name: str) -> bytes:
    """Return the bytes of a base64 field; empty if it holds something else."""
    try:
        return base64.b64decode(content[name], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error):
        return b""


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode()
