"""Files of a folder from anybody: its manifest by the schema, its receipt, its signature."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hexveil.publishing import receipt, signing
from hexveil.publishing.manifest import SCHEMA_VERSION
from hexveil.publishing.part_kinds import manifest_schema
from hexveil.publishing.verification import untrusted_files

Json = dict[str, Any]

MAX_COLUMNS = 50
MAX_PROBLEMS = 30
MAX_MANIFEST_PARTS = 20_000
"""Lists, objects, names and numbers that a manifest has beside its cells, at most."""
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


def check_schema(manifest: Json) -> Iterator[str]:
    """Yield the places where a manifest breaks its schema."""
    version = manifest.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        is_number = isinstance(version, int) and abs(version) < 10**9
        yield (
            f"manifest.json has schema version {version if is_number else 'unknown'}, and this "
            f"program reads {SCHEMA_VERSION}; use the version of hexveil that it names."
        )
        return
    # The schema checks one cell after the other, but everything else at once: its size is limited
    # first.
    components = manifest.get("components")
    listed = components if isinstance(components, list) else [components]
    beside_cells = [section for key, section in manifest.items() if key != "components"]
    for component in listed[: MAX_COLUMNS + 1]:
        sections = component if isinstance(component, dict) else {"": component}
        beside_cells += [section for key, section in sections.items() if key != "cells"]
    if _has_more_parts(beside_cells, MAX_MANIFEST_PARTS):
        yield "manifest.json contains more beside its cells than a release does."
        return
    from jsonschema import Draft202012Validator  # noqa: PLC0415  only checking needs it

    errors = Draft202012Validator(manifest_schema()).iter_errors(manifest)
    for error in itertools.islice(errors, MAX_PROBLEMS):
        place = "/".join(map(str, error.absolute_path)) or "its top"
        yield f"manifest.json breaks its schema at {place} ({error.validator})."


def _has_more_parts(value: Any, limit: int) -> bool:  # noqa: ANN401  JSON
    """Return whether JSON has more parts than that."""
    # A stack instead of recursion: a stranger's JSON can nest deeply.
    waiting, count = [value], 0
    while waiting and count <= limit:
        item = waiting.pop()
        count += 1
        if isinstance(item, dict):
            waiting.extend(itertools.islice(item.values(), limit + 1))
        elif isinstance(item, list):
            waiting.extend(itertools.islice(item, limit + 1))
    return count > limit
