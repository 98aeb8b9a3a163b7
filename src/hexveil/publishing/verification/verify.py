"""Whether a release folder is what it says it is, from the folder alone: for those who receive one.

Checked: that its files are regular ones of plausible sizes (untrusted.py); the manifest by its
schema; the receipt's checksums, with no file missing or added; that receipt and manifest speak of
the same release; that CSV, GeoJSON and README.txt say what the Parquet table says, and the table
what the manifest says (comparing.py); that the losses stated follow from scales, biases, bounds and
counts as far as these determine them (recomputing.py); and the holder's signature, if there is one
(signing.py).
Not checked, because a folder cannot show it: that the noise was drawn, and that the ledger has the
release (its holder can tell, by the receipt's chain hash).
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hexveil.base.errors import InputError
from hexveil.publishing import receipt, signing
from hexveil.publishing.dossier.markup import clean
from hexveil.publishing.manifest import SCHEMA_VERSION, schema
from hexveil.publishing.verification import file_comparison, recomputed_losses, untrusted_files
from hexveil.publishing.verification.recomputed_losses import Stated

if TYPE_CHECKING:
    from collections.abc import Iterator

    Said = dict[str, Any]

# What reading files that a stranger wrote can raise.
_BROKEN = (
    OSError, pa.ArrowException, ValueError, TypeError, LookupError, ArithmeticError,
    RecursionError, MemoryError,
)  # fmt: skip
TABLES = ("cells.parquet", "cells.csv", "cells.geojson")
NEEDED = ("cells.parquet", "cells.csv", "manifest.json", "README.txt", "report.html")
KNOWN = {*NEEDED, "cells.geojson", receipt.NAME, signing.NAME}
MOST_FILES = 100
MOST_PROBLEMS = 30
LONGEST = 300
"""Letters of a problem: names in it are a stranger's."""
APART = 20_000
"""Lists, objects, names and numbers that a manifest has beside its cells, at most."""
NOT_SIGNED = (
    "none: the folder does not show who made it. Whoever changed its files could have written its "
    "receipt anew."
)
NOISE = "whether noise was drawn as stated, and whether the holder's ledger has this release"


@dataclass(frozen=True)
class Verdict:
    """What a folder shows.

    Attributes
    ----------
    problems : tuple of str
        What is wrong, a sentence each.
    recomputed : tuple of str
        What was computed anew from the folder's scales, biases, bounds and counts, and fits.
    unknown : tuple of str
        What could not be.
    signature : str
        What its signature says, or that it has none.
    """

    problems: tuple[str, ...]
    recomputed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    signature: str = NOT_SIGNED


def verify(folder: str | Path, *, key: str | Path | None = None) -> dict[str, Any]:
    """Return the manifest of a release folder that is as it was written.

    For those who receive one: no ledger and no records are needed. A folder cannot show that
    noise was drawn as stated, nor that its holder's ledger has the release.

    Parameters
    ----------
    folder : str or Path
        As `Release.write` or `hexveil release` wrote it.
    key : str or Path, optional
        File of the holder's public key: then the folder must be signed with it.

    Returns
    -------
    dict
        As in `manifest.json`: what was published and what is guaranteed.

    Raises
    ------
    InputError
        If there is no release in the folder, or if a file, a number, a statement or the signature
        is not as it was written; the message names each. Also if the key cannot be read.
    """
    path = Path(folder)
    found = problems(path, key=key)
    if found:
        raise InputError(f"{path} is not as it was written: {' '.join(found)}")
    said: Said = untrusted_files.parsed(untrusted_files.content(path / "manifest.json"))
    return said


def problems(folder: Path, *, key: str | Path | None = None) -> tuple[str, ...]:
    """Return what is wrong with a release folder, a sentence each; nothing if all is well.

    Raises
    ------
    InputError
        If there is no such folder, or no release in it, or the key cannot be read.
    """
    return verdict(folder, key=key).problems


def verdict(folder: Path, *, key: str | Path | None = None) -> Verdict:
    """Return what a release folder shows, and what not; see `problems`."""
    reader = None if key is None else signing.reader(key)
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; name a release folder.")
    with os.scandir(folder) as entries:
        here = {entry.name for entry in itertools.islice(entries, MOST_FILES + 1)}
    if "manifest.json" not in here:
        raise InputError(f"{folder} has no manifest.json, so it is no release; name another.")
    if len(here) > MOST_FILES:
        return Verdict((f"the folder has more than {MOST_FILES} files, and a release has eight.",))
    look = _Look(folder, here, reader)
    found = look.problems()
    shown = ((), ()) if found else look.shown()
    return Verdict(tuple(_told(found)), *shown, signature=clean(look.signature))


def _told(found: list[str]) -> Iterator[str]:
    """Yield problems, made fit for a terminal: names are a stranger's, and may be many."""
    for one in found[:MOST_PROBLEMS]:
        # One letter can be hidden by many; a name's end says little.
        said = clean(one[: 4 * LONGEST])
        yield said if len(said) <= LONGEST else f"{said[:LONGEST]}..."
    if len(found) > MOST_PROBLEMS:
        yield f"And {len(found) - MOST_PROBLEMS} more."


class _Look:
    """One look at a folder: each file is read once, the table only if it is what was written."""

    def __init__(self, folder: Path, here: set[str], key: signing.Reader | None) -> None:
        self.folder, self.here, self.key = folder, here, key
        self.manifest: Said = {}
        self.stated: Stated | None = None
        self.signature = NOT_SIGNED
        self.digests: dict[str, str] = {}

    def problems(self) -> list[str]:
        """Return what is wrong, in words that may hold a stranger's names."""
        found = [*self._regular()]
        if found:
            return found
        self.manifest, wrong = _json(self.folder / "manifest.json")
        if wrong:
            return [wrong]
        found = [*_manifest(self.manifest)]
        if found:
            return found
        found = [*self._files(), *self._signed()]
        # A changed table is not read: what it would say is nobody's statement.
        if any(one.startswith((*TABLES, receipt.NAME)) for one in found):
            return found
        return found + self._contents()

    def shown(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what was recomputed, and what could not be."""
        if self.stated is None:
            return (), ()
        return (*_recomputed(self.stated),), (*_unknown(self.stated), NOISE)

    def _regular(self) -> Iterator[str]:
        """Yield which files are none that can be read, or are too large."""
        for name in sorted(self.here & KNOWN):
            try:
                with untrusted_files.opened(self.folder / name) as file:
                    self.digests[name] = receipt.digest_of(file)
            except untrusted_files.ImplausibleError as error:
                yield f"{name} {error}."
            except OSError as error:
                yield f"{name} cannot be read ({type(error).__name__})."

    def _files(self) -> Iterator[str]:
        """Yield in what the files differ from their receipt."""
        for name in sorted(self.here - KNOWN):
            yield f"{name} was added: a release has no such file."
        for name in sorted({*NEEDED} - self.here):
            yield f"{name} is missing."
        if receipt.NAME not in self.here:
            yield f"{receipt.NAME} is missing, so changed files cannot be told."
            return
        said, wrong = _json(self.folder / receipt.NAME)
        wrong = wrong or receipt.wrong(said)
        if wrong:
            yield wrong
            return
        for what, there in (
            ("dataset", self.manifest["dataset"]["name"]),
            ("request", self.manifest["request"]),
            ("ledger", self.manifest["ledger"]),
        ):
            if said[what] != there:
                yield f"{receipt.NAME} and manifest.json name another {what}."
        yield from self._compared(said["files"])

    def _compared(self, listed: dict[str, str]) -> Iterator[str]:
        for name in sorted({*listed} - self.here - {*NEEDED}):
            yield f"{name} is missing."
        for name in sorted(self.digests.keys() - {*listed, receipt.NAME, signing.NAME}):
            yield f"{name} was added: it is not in {receipt.NAME}."
        for name in sorted(self.digests.keys() & {*listed}):
            if self.digests[name] != listed[name]:
                yield f"{name} was changed: its checksum is not the one in {receipt.NAME}."

    def _signed(self) -> Iterator[str]:
        """Yield why the signature does not hold, or is missing where a key was given."""
        if signing.NAME not in self.here:
            if self.key is not None:
                yield (
                    f"{signing.NAME} is missing: the folder is unsigned, so it does not show that "
                    "it is by the holder of the key."
                )
            return
        if not signing.available():
            self.signature = 'not checked: pip install "hexveil[signing]".'
            return
        said, wrong = _json(self.folder / signing.NAME)
        files = {name: self.digests[name] for name in self.digests if name != signing.NAME}
        wrong = wrong or signing.problem(said, files, self.key) or ""
        if wrong:
            self.signature = "does not hold."
            yield wrong
        elif self.key is not None:
            self.signature = f"by the holder of the key given ({self.key.fingerprint})."
        else:
            self.signature = (
                f"by the key {signing.named_fingerprint(said)}, which anybody can have made: give "
                "the holder's public key (--key) to know who signed."
            )

    def _contents(self) -> list[str]:
        """Return in what tables and statements differ from each other."""
        name = "cells.parquet"
        try:
            texts = (self.folder / "cells.csv").stat().st_size
            table = untrusted_files.table(self.folder / name, len(self.manifest["cells"]), texts)
        except untrusted_files.ImplausibleError as error:
            return [f"{name} {error}."]
        except _BROKEN:
            return [f"{name} cannot be read."]
        found: list[str] = []
        with contextlib.suppress(*_BROKEN):
            found.extend(file_comparison.columns(table, self.manifest))
            if found:
                return found
            found.extend(file_comparison.places(table, self.manifest))
            if found:
                return found
            with np.errstate(all="ignore"):  # hostile numbers may be of any size
                self._numbers(table, found)
            return found
        return [*found, "the tables and manifest.json cannot be compared."]

    def _numbers(self, table: pa.Table, found: list[str]) -> None:
        for compared in (file_comparison.csv, file_comparison.geojson):
            try:
                found.extend(compared(self.folder, table))
            except _BROKEN:
                found.append(f"cells.{compared.__name__} cannot be read.")
        stated = Stated.of(self.manifest, table)
        found.extend(file_comparison.numbers(table, stated))
        found.extend(file_comparison.cut_off(table, self.manifest))
        found.extend(recomputed_losses.problems(stated))
        found.extend(file_comparison.text(self.folder, table, self.manifest))
        self.stated = stated


def _json(path: Path) -> tuple[Said, str]:
    """Return a file's contents, and what is wrong with them."""
    try:
        found = untrusted_files.parsed(untrusted_files.content(path))
    except untrusted_files.ImplausibleError as error:
        return {}, f"{path.name} {error}."
    except (OSError, ValueError, RecursionError) as error:
        return {}, f"{path.name} cannot be read as JSON ({type(error).__name__})."
    return (found, "") if isinstance(found, dict) else ({}, f"{path.name} is no JSON object.")


def _manifest(said: Said) -> Iterator[str]:
    """Yield in what the manifest breaks its schema."""
    version = said.get("schema_version")
    if not _is_version(version, SCHEMA_VERSION):
        shown = version if isinstance(version, int) and abs(version) < 10**9 else "none that"
        yield (
            f"manifest.json is of schema version {shown}, this program reads {SCHEMA_VERSION}; use "
            "the version of hexveil that it names."
        )
        return
    apart = [part for key, part in said.items() if key != "cells"]
    if _larger(apart, APART):
        yield "manifest.json says more beside its cells than a release does."
        return
    from jsonschema import Draft202012Validator  # noqa: PLC0415  only checking needs it

    errors = Draft202012Validator(schema()).iter_errors(said)
    for error in itertools.islice(errors, MOST_PROBLEMS):
        place = "/".join(map(str, error.absolute_path)) or "its top"
        yield f"manifest.json breaks its schema at {place} ({error.validator})."
    if not said.get("cells"):
        yield "manifest.json has no cells."


def _is_version(said: object, known: int) -> bool:
    return isinstance(said, int) and not isinstance(said, bool) and said == known


def _larger(value: Any, most: int) -> bool:  # noqa: ANN401  JSON
    """Return whether JSON has more parts than that."""
    waiting, seen = [value], 0
    while waiting and seen <= most:
        one = waiting.pop()
        seen += 1
        if isinstance(one, dict):
            waiting.extend(itertools.islice(one.values(), most + 1))
        elif isinstance(one, list):
            waiting.extend(itertools.islice(one, most + 1))
    return seen > most


def _recomputed(stated: Stated) -> Iterator[str]:
    """Yield what was computed anew and fits, in words."""
    known, said = recomputed_losses.losses(stated), stated.manifest["losses"]
    unit = stated.manifest["guarantee"]["unit"]
    together = said["users"] * said["mean"]
    yield (
        f"what all {said['users']:,} {unit}s lose together: {known.total} by scales, biases and "
        f"bounds, {together:.6g} as stated"
    )
    yield (
        f"what the most exposed {unit} loses: {known.largest} by scales, bounds and counts, "
        f"{said['max']:.6g} as stated"
    )


def _unknown(stated: Stated) -> Iterator[str]:
    """Yield what could not be recomputed, in words."""
    unit, known = stated.manifest["guarantee"]["unit"], recomputed_losses.losses(stated)
    yield (
        f"the loss of each {unit}: the folder does not say who reported where, only how many, so "
        "the largest one is known within limits"
    )
    if not math.isclose(known.total.low, known.total.high, rel_tol=recomputed_losses.CLOSE):
        yield "what all lose together, exactly: variances or further steps leave limits"
    if not stated.plain or stated.manifest["smoothing"]:
        yield "ends, grades, errors and counts that a model or a private interval leaves open"
    yield "what report.html shows: its checksum alone was compared"
    if not file_comparison.same_version(stated.manifest):
        yield "the words of README.txt: another version of hexveil wrote them"
