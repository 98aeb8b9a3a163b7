"""Files of a folder from anybody: regular, complete, as in their receipt, and signed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexveil.publishing import receipt, signing
from hexveil.publishing.verification.files import untrusted_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Json = dict[str, Any]

NOT_SIGNED = (
    "none: the folder does not show who made it. Whoever changed its files could have written its "
    "receipt anew."
)


class CheckedFiles:
    """Files of a folder, each read once for its checksum.

    Parameters
    ----------
    folder : Path
    names : set of str
        Of the files that are there, relative to the folder.
    key : VerificationKey or None
        The holder's public key.
    required, known : set of str
        Names that must be there, and names that may be.
    """

    def __init__(
        self,
        folder: Path,
        names: set[str],
        key: signing.VerificationKey | None,
        *,
        required: frozenset[str],
        known: frozenset[str],
    ) -> None:
        self.folder, self.names, self.key = folder, names, key
        self._required, self._known = required, known
        self.signature = NOT_SIGNED
        self.digests: dict[str, str] = {}

    def find_irregular(self) -> Iterator[str]:
        """Yield the files that cannot be read or are too large."""
        for name in sorted(self.names & self._known):
            try:
                with untrusted_files.open_file(self.folder / name) as file:
                    self.digests[name] = receipt.stream_digest(file)
            except untrusted_files.ImplausibleError as error:
                yield f"{name} {error}."
            except OSError as error:
                yield f"{name} cannot be read ({type(error).__name__})."

    def compare_receipt(self, manifest: Json) -> Iterator[str]:
        """Yield the differences of the files from their receipt."""
        for name in sorted(self.names - self._known):
            yield f"{name} was added: a release has no such file."
        for name in sorted(self._required - self.names):
            yield f"{name} is missing."
        if receipt.NAME not in self.names:
            yield f"{receipt.NAME} is missing, so changed files cannot be detected."
            return
        content, error = read_json(self.folder / receipt.NAME)
        error = error or receipt.find_problem(content)
        if error:
            yield error
            return
        for field, stated_value in (
            ("dataset", manifest["dataset"]["name"]),
            ("request", manifest["request"]),
            ("ledger", manifest["ledger"]),
        ):
            if content[field] != stated_value:
                yield f"{receipt.NAME} and manifest.json name different values of {field}."
        yield from self._compared(content["files"])

    def _compared(self, checksums: dict[str, str]) -> Iterator[str]:
        for name in sorted({*checksums} - self.names - self._required):
            yield f"{name} is missing."
        for name in sorted(self.digests.keys() - {*checksums, receipt.NAME, signing.NAME}):
            yield f"{name} was added: it is not in {receipt.NAME}."
        for name in sorted(self.digests.keys() & {*checksums}):
            if self.digests[name] != checksums[name]:
                yield f"{name} was changed: its checksum is not the one in {receipt.NAME}."

    def check_signature(self) -> Iterator[str]:
        """Yield why the signature does not hold, or is missing where a key was given."""
        if signing.NAME not in self.names:
            if self.key is not None:
                yield (
                    f"{signing.NAME} is missing: the folder is unsigned, so it does not show that "
                    "it is by the holder of the key."
                )
            return
        if not signing.is_available():
            self.signature = 'not checked: pip install "hexveil[signing]".'
            return
        content, error = read_json(self.folder / signing.NAME)
        files = {name: self.digests[name] for name in self.digests if name != signing.NAME}
        error = error or signing.find_problem(content, files, self.key) or ""
        if error:
            self.signature = "does not hold."
            yield error
        elif self.key is not None:
            self.signature = f"by the holder of the key given ({self.key.fingerprint})."
        else:
            self.signature = (
                f"by the key {signing.stated_fingerprint(content)}, which anybody can have made: "
                "give the holder's public key (--key) to know who signed."
            )


def read_json(path: Path) -> tuple[Json, str]:
    """Return a file's JSON object, or the problem with it."""
    try:
        content = untrusted_files.parse_json(untrusted_files.read_content(path))
    except untrusted_files.ImplausibleError as error:
        return {}, f"{path.name} {error}."
    except (OSError, ValueError, RecursionError) as error:
        return {}, f"{path.name} cannot be read as JSON ({type(error).__name__})."
    return (
        (content, "") if isinstance(content, dict) else ({}, f"{path.name} is not a JSON object.")
    )
