"""What a dossier is made of: the manifest of a release folder, checked as far as it is used.

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
from hexveil.publishing.dossier.schema import check
from hexveil.publishing.manifest import SCHEMA_VERSION
from hexveil.publishing.markup import clean
from hexveil.report.promise import probability_factor, promise

if TYPE_CHECKING:
    from pathlib import Path

    Said = dict[str, Any]

NAME = "manifest.json"
CLOSE = 1e-9


@dataclass(frozen=True)
class Facts:
    """A checked manifest.

    Attributes
    ----------
    said : dict
        The manifest, its texts without invisible characters.
    checksum : str
        SHA-256 of the file.
    has_receipt : bool
        Whether a receipt stands beside it; then it has this checksum.
    """

    said: Said
    checksum: str
    has_receipt: bool

    @property
    def unit(self) -> str:
        """The unit of privacy."""
        return str(self.said["guarantee"]["privacy_unit"])

    @property
    def loss(self) -> Fraction:
        """The loss of the most exposed unit, in epsilon, rounded up."""
        return Fraction(self.said["guarantee"]["epsilon_spent"])

    @property
    def largest_bias(self) -> float:
        """The largest worst-case bias of a mean over the cells, in value units."""
        parts = (part for one in self.said["cells"] for part in one["noised"])
        return max((part["bias"] for part in parts if part["statistic"] == "mean"), default=0.0)


def read(folder: Path) -> Facts:
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
    content = _content(folder / NAME)
    if content is None:
        raise InputError(f"{folder} has no {NAME}, so it is no release; name another.")
    said = _object(content, folder / NAME)
    _version(said.get("schema_version"), folder / NAME)
    checksum = hashlib.sha256(content).hexdigest()
    has_receipt = _receipt(folder, checksum)
    check(said, folder / NAME)
    _consistent(said, folder / NAME)
    return Facts(_cleaned(said), checksum, has_receipt)


def _content(path: Path) -> bytes | None:
    """Return a file's bytes; None if there is no such file."""
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({type(error).__name__}); try again.") from None


def _object(content: bytes, path: Path) -> Said:
    """Return the JSON object in a file."""
    try:
        said = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise InputError(f"{path} holds no JSON object; get the folder again from its holder.")
    return said


def _version(found: object, path: Path) -> None:
    """Raise InputError if a manifest is of a schema that this program does not read."""
    if found != SCHEMA_VERSION:
        number = found if isinstance(found, int) and abs(found) < 10**6 else "unknown"
        raise InputError(
            f"{path} is of schema version {number}, this program reads {SCHEMA_VERSION}; use the "
            "version of hexveil that made it."
        )


def _receipt(folder: Path, checksum: str) -> bool:
    """Return whether there is a receipt; raise InputError if it is of another manifest."""
    content = _content(folder / receipt.NAME)
    if content is None:
        return False
    files = _object(content, folder / receipt.NAME).get("files")
    if not isinstance(files, dict) or files.get(NAME) != checksum:
        raise InputError(
            f"{folder / NAME} is not the one in {receipt.NAME}: its checksum is another; get the "
            "folder again from its holder."
        )
    return True


def _consistent(said: Said, path: Path) -> None:
    """Raise InputError if promise, factor or losses are not those of the loss that is stated."""
    guarantee, losses = said["guarantee"], said["losses"]
    loss = Fraction(guarantee["epsilon_spent"])
    factor = guarantee["probability_factor"]
    stated = math.inf if factor is None else factor
    if not math.isclose(stated, probability_factor(loss), rel_tol=CLOSE):
        raise InputError(
            f"{path}: guarantee/probability_factor is not e to the power of "
            "guarantee/epsilon_spent; get the folder again from its holder."
        )
    if guarantee["promise"] != promise(guarantee["privacy_unit"], loss):
        raise InputError(
            f"{path}: guarantee/promise is not the promise of guarantee/epsilon_spent; get the "
            "folder again from its holder."
        )
    if losses["max"] > round_up(loss) * (1 + CLOSE):
        raise InputError(
            f"{path}: losses/max is above guarantee/epsilon_spent; get the folder again from its "
            "holder."
        )


def _cleaned(found: Any) -> Any:  # noqa: ANN401  JSON of any kind
    """Return JSON with every text cleaned."""
    if isinstance(found, str):
        return clean(found)
    if isinstance(found, list):
        return [_cleaned(one) for one in found]
    if isinstance(found, dict):
        return {clean(key): _cleaned(one) for key, one in found.items()}
    return found
