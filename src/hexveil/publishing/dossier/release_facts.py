"""Facts of a dossier: the manifest of a release folder, checked as far as it is used.

Public facts only. A manifest that was changed after its receipt was written, or that contradicts
itself about the loss, is refused: nobody shall sign a text made from it.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError, StorageError
from hexveil.base.rational import round_up
from hexveil.publishing import receipt
from hexveil.publishing.dossier.schema import check_manifest, is_delta
from hexveil.publishing.manifest import SCHEMA_VERSION
from hexveil.publishing.markup import clean_texts
from hexveil.report.promise_wording import probability_factor, promise

if TYPE_CHECKING:
    from pathlib import Path

    Json = dict[str, Any]

NAME = "manifest.json"
TOLERANCE = 1e-9


@dataclass(frozen=True)
class ReleaseFacts:
    """A checked manifest.

    Attributes
    ----------
    manifest : dict
        The manifest, its texts without invisible characters.
    checksum : str
        SHA-256 of the file.
    has_receipt : bool
        Whether the folder has a receipt, which then has this checksum.
    """

    manifest: Json
    checksum: str
    has_receipt: bool

    @property
    def unit(self) -> str:
        """The privacy unit."""
        return str(self.manifest["guarantee"]["privacy_unit"])

    @property
    def loss(self) -> Fraction:
        """The loss of the most exposed unit, in epsilon, rounded up."""
        return Fraction(self.manifest["guarantee"]["epsilon_spent"])

    @property
    def largest_bias(self) -> float:
        """The largest worst-case bias of a mean over the cells, in value units."""
        statistics = (statistic for cell in self.manifest["cells"] for statistic in cell["noised"])
        return max(
            (statistic["bias"] for statistic in statistics if statistic["statistic"] == "mean"),
            default=0.0,
        )


def read_facts(folder: Path) -> ReleaseFacts:
    """Return the facts of a release folder.

    Raises
    ------
    InputError
        If there is no release, its manifest is of another version, is broken, was changed, or
        contradicts itself.
    StorageError
        If the disk fails.
    """
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; name a release folder.")
    # Read once: the checksum must be of the very bytes that are parsed.
    content = _read_file(folder / NAME)
    if content is None:
        raise InputError(f"{folder} has no {NAME}, so it is not a release; name another folder.")
    manifest = _parse_object(content, folder / NAME)
    _check_version(manifest.get("schema_version"), folder / NAME)
    checksum = hashlib.sha256(content).hexdigest()
    has_receipt = _check_receipt(folder, checksum)
    check_manifest(manifest, folder / NAME)
    _check_consistency(manifest, folder / NAME)
    # Cleaned last: comparisons above are of the text as it is written.
    return ReleaseFacts(clean_texts(manifest), checksum, has_receipt)


def _read_file(path: Path) -> bytes | None:
    """Return a file's bytes; None if there is no such file."""
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({type(error).__name__}); try again.") from None


def _parse_object(content: bytes, path: Path) -> Json:
    """Return the JSON object in a file."""
    try:
        manifest = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        manifest = None
    if not isinstance(manifest, dict):
        raise InputError(f"{path} holds no JSON object; get the folder again from its holder.")
    return manifest


def _check_version(version: object, path: Path) -> None:
    """Raise InputError if a manifest is of a schema that this program does not read."""
    if version != SCHEMA_VERSION:
        number = version if isinstance(version, int) and abs(version) < 10**6 else "unknown"
        raise InputError(
            f"{path} has schema version {number}, and this program reads {SCHEMA_VERSION}; use the "
            "version of hexveil that made it."
        )


def _check_receipt(folder: Path, checksum: str) -> bool:
    """Return whether there is a receipt; raise InputError if it is of another manifest."""
    content = _read_file(folder / receipt.NAME)
    if content is None:
        return False
    files = _parse_object(content, folder / receipt.NAME).get("files")
    if not isinstance(files, dict) or files.get(NAME) != checksum:
        raise InputError(
            f"{folder / NAME} was changed: its checksum differs from that in {receipt.NAME}; get "
            "the folder again from its holder."
        )
    return True


def _check_consistency(manifest: Json, path: Path) -> None:
    """Raise InputError if promise, factor or losses are not those of the loss that is stated."""
    guarantee, losses = manifest["guarantee"], manifest["losses"]
    loss = Fraction(guarantee["epsilon_spent"])
    factor = guarantee["probability_factor"]
    # JSON has no infinity: a factor beyond all doubles is null.
    stated = math.inf if factor is None else factor
    if not math.isclose(stated, probability_factor(loss), rel_tol=TOLERANCE):
        raise InputError(
            f"{path}: guarantee/probability_factor is not e to the power of "
            "guarantee/epsilon_spent; get the folder again from its holder."
        )
    # Absent from a pure promise.
    if not is_delta(guarantee.get("delta", "1")):
        raise InputError(
            f"{path}: guarantee/delta is not what a release writes there; get the folder again "
            "from its holder."
        )
    delta = Fraction(guarantee.get("delta", 0))
    if guarantee["promise"] != promise(guarantee["privacy_unit"], loss, delta=delta):
        raise InputError(
            f"{path}: guarantee/promise is not the promise of guarantee/epsilon_spent; get the "
            "folder again from its holder."
        )
    if losses["max"] > round_up(loss) * (1 + TOLERANCE):
        raise InputError(
            f"{path}: losses/max is above guarantee/epsilon_spent; get the folder again from its "
            "holder."
        )
