"""Files of a published folder that are missing or were changed since its receipt was written."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

from hexveil.publishing import receipt, signing
from hexveil.publishing.signing import SigningKey

Reader = Callable[[str], bytes | None]


def list_damage(read: Reader, signer: SigningKey | None = None, prefix: str = "") -> Iterator[str]:
    """Yield the faults of the files of a folder, and of the value columns inside it.

    Parameters
    ----------
    read : callable
        Returns the bytes of a file by its path below the folder; None if it is not there.
    signer : SigningKey, optional
        The key that must have signed the folder.
    prefix : str, optional
        Folder of a value column, with a slash at its end.
    """
    own = read(f"{prefix}{receipt.NAME}")
    checksums = receipt.parse_checksums(own)
    if own is None or checksums is None:
        yield f"{prefix}{receipt.NAME} {'is missing' if own is None else 'was changed'}"
        return
    parts = [name for name in checksums if "/" in name]
    # One level: columns have no folders in them, whatever a receipt says.
    for name in parts if not prefix else ():
        yield from list_damage(read, signer, name.removesuffix(receipt.NAME))
    issues = [*_compare(read, prefix, checksums)]
    yield from issues
    if signer is not None and not issues:
        signed = signer.signature_text(checksums | {receipt.NAME: _digest(own)})
        signature = read(f"{prefix}{signing.NAME}")
        if signature != signed.encode():
            how = "is missing" if signature is None else "was changed, or is by another key"
            yield f"{prefix}{signing.NAME} {how}"


def _compare(read: Reader, prefix: str, checksums: dict[str, str]) -> Iterator[str]:
    for name, checksum in sorted(checksums.items()):
        content = read(f"{prefix}{name}")
        if content is None or _digest(content) != checksum:
            yield f"{prefix}{name} {'is missing' if content is None else 'was changed'}"


def _digest(content: bytes) -> str:
    return receipt.stream_digest(io.BytesIO(content))
