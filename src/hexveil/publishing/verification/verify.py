"""Verification of a release folder from the folder alone, for those who receive one.

Checked: that its files are regular ones of plausible sizes (untrusted_files.py); the manifest by
its schema; the receipt's checksums, with no file missing or added; that receipt and manifest are of
one release; that CSV, GeoJSON, README.txt and the descriptions for portals agree with the Parquet
table, and the table with the manifest (file_comparison.py); that the stated losses follow from
scales, biases, bounds and counts as far as these determine them (recomputed_losses.py); and the
holder's signature, if there is one (signing.py).
Not checked, because a folder cannot show it: that the noise was drawn, and that the ledger has the
release (its holder can check the receipt's chain hash).
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
from hexveil.base.work_share import FOLDER_CHECK, tell_share
from hexveil.publishing import receipt, signing
from hexveil.publishing.catalogue import metadata_files
from hexveil.publishing.catalogue.folder_files import TILES
from hexveil.publishing.distribution.distribution_manifest import KIND
from hexveil.publishing.distribution.distribution_schema import distribution_schema
from hexveil.publishing.manifest import SCHEMA_VERSION, schema
from hexveil.publishing.markup import clean
from hexveil.publishing.presence.presence_manifest import MODEL, presence_schema
from hexveil.publishing.verification import (
    accuracy_checks,
    distribution_checks,
    loss_checks,
    presence_checks,
    recomputed_losses,
    square_checks,
)
from hexveil.publishing.verification.columns import column_checks, column_totals
from hexveil.publishing.verification.files import file_comparison, untrusted_files
from hexveil.publishing.verification.files.checked_files import NOT_SIGNED, CheckedFiles, read_json
from hexveil.publishing.verification.release_statements import ReleaseStatements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexveil.publishing.verification.columns.column_checks import ColumnsCheck

    Json = dict[str, Any]

# Exceptions of reading files that a stranger wrote.
_READ_ERRORS = (
    OSError, pa.ArrowException, ValueError, TypeError, LookupError, ArithmeticError,
    RecursionError, MemoryError,
)  # fmt: skip
TABLE_FILES = ("cells.parquet", "cells.csv", "cells.geojson")
REQUIRED_FILES = (
    "cells.parquet",
    "cells.csv",
    "manifest.json",
    "README.txt",
    "report.html",
    *metadata_files.ALWAYS,
)
KNOWN_FILES = {
    *REQUIRED_FILES,
    "cells.geojson",
    TILES,
    metadata_files.ITEM,
    receipt.NAME,
    signing.NAME,
}
MAX_FILES = 100
MAX_PROBLEMS = 30
MAX_PROBLEM_LENGTH = 300
"""Letters of a problem: names in it are a stranger's."""
MAX_MANIFEST_PARTS = 20_000
"""Lists, objects, names and numbers that a manifest has beside its cells, at most."""
TILES_UNREAD = f"the content of {TILES}: only its checksum was compared"
NOT_IN_FOLDER = (
    "whether noise was drawn as stated, and whether the holder's ledger has this release"
)


@dataclass(frozen=True)
class FolderVerdict:
    """Result of checking a folder.

    Attributes
    ----------
    problems : tuple of str
        Its problems, a sentence each.
    recomputed : tuple of str
        Figures computed anew from the folder's scales, biases, bounds and counts, which agree.
    unknown : tuple of str
        Figures that could not be.
    signature : str
        Meaning of its signature, or that it has none.
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
    if column_checks.has_columns(path):
        return read_columns(path, key=key).manifest
    manifest, _ = read_release(path, key=key)
    return manifest


def read_columns(folder: Path, *, key: str | Path | None = None) -> ColumnsCheck:
    """Return the value columns of a folder, as they were checked; see `verify`."""
    check, issues = _examine_columns(folder, key)
    if issues:
        raise InputError(f"{folder} is not as it was written: {' '.join(issues)}")
    return check


def _examine_columns(folder: Path, key: str | Path | None) -> tuple[ColumnsCheck, tuple[str, ...]]:
    """Return the check of a folder of several value columns, with its problems."""
    reader = None if key is None else signing.read_verification_key(key)
    check = column_checks.examine_columns(folder, reader, lambda path: _examine(path, key))
    return check, tuple(_shorten([*check.issues]))


def read_release(folder: Path, *, key: str | Path | None = None) -> tuple[Json, pa.Table]:
    """Return the manifest and the table of a folder, as they were checked; see `verify`."""
    if column_checks.has_columns(folder):
        raise InputError(
            f"{folder} holds several value columns; name the folder of one of them inside it."
        )
    check, issues = _examine(folder, key)
    if issues or check is None or check.table is None:
        raise InputError(f"{folder} is not as it was written: {' '.join(issues)}")
    return check.manifest, check.table


def find_problems(folder: Path, *, key: str | Path | None = None) -> tuple[str, ...]:
    """Return the problems of a release folder, a sentence each; none if all is well.

    Raises
    ------
    InputError
        If there is no such folder, or no release in it, or the key cannot be read.
    """
    return check_folder(folder, key=key).problems


def check_folder(folder: Path, *, key: str | Path | None = None) -> FolderVerdict:
    """Check a release folder; see `find_problems`."""
    if column_checks.has_columns(folder):
        columns, problems = _examine_columns(folder, key)
        known = ((), ()) if problems else columns.describe_losses()
        return FolderVerdict(problems, *known, signature=clean(columns.signature))
    check, issues = _examine(folder, key)
    if check is None:
        return FolderVerdict(issues)
    # Figures of a folder with problems would be nobody's statement.
    described = ((), ()) if issues else check.describe_losses()
    return FolderVerdict(issues, *described, signature=clean(check.files.signature))


def _examine(folder: Path, key: str | Path | None) -> tuple[_FolderCheck | None, tuple[str, ...]]:
    """Return the check of a folder, with its problems; None where there is too much to check."""
    reader = None if key is None else signing.read_verification_key(key)
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; name a release folder.")
    with os.scandir(folder) as entries:
        # One more than the limit suffices to refuse: a folder can have millions of files.
        names = {entry.name for entry in itertools.islice(entries, MAX_FILES + 1)}
    # Not from the names: which of them come first depends on the file system.
    if not os.path.lexists(folder / "manifest.json"):
        raise InputError(
            f"{folder} has no manifest.json, so it is not a release; name another folder."
        )
    if len(names) > MAX_FILES:
        most = len(KNOWN_FILES)
        return None, (f"the folder has more than {MAX_FILES} files; a release has {most} at most.",)
    check = _FolderCheck(folder, names, reader)
    issues = tuple(_shorten(check.find_problems()))
    return check, issues


def _shorten(issues: list[str]) -> Iterator[str]:
    """Yield problems, made fit for a terminal: names are a stranger's, and may be many."""
    for issue in issues[:MAX_PROBLEMS]:
        # One letter can be hidden by many; a name's end says little.
        text = clean(issue[: 4 * MAX_PROBLEM_LENGTH])
        yield text if len(text) <= MAX_PROBLEM_LENGTH else f"{text[:MAX_PROBLEM_LENGTH]}..."
    if len(issues) > MAX_PROBLEMS:
        yield f"And {len(issues) - MAX_PROBLEMS} more."


class _FolderCheck:
    """One check of a folder: each file is read once, the table only if it is unchanged."""

    def __init__(self, folder: Path, names: set[str], key: signing.VerificationKey | None) -> None:
        self.folder, self.names = folder, names
        self.files = CheckedFiles(
            folder,
            names,
            key,
            required=frozenset(REQUIRED_FILES),
            known=frozenset(KNOWN_FILES),
        )
        self.manifest: Json = {}
        self.table: pa.Table | None = None
        self.stated: ReleaseStatements | None = None

    def find_problems(self) -> list[str]:
        """Return the problems, in words that may contain a stranger's names."""
        issues = [*self.files.find_irregular()]
        if issues:
            return issues
        self.manifest, error = read_json(self.folder / "manifest.json")
        if error:
            return [error]
        tell_share(FOLDER_CHECK, 0.1)
        issues = [*_check_manifest(self.manifest)]
        if issues:
            return issues
        tell_share(FOLDER_CHECK, 0.4)
        issues = [*self.files.compare_receipt(self.manifest), *self.files.check_signature()]
        # A changed table is not read: what it would say is nobody's statement.
        if any(issue.startswith((*TABLE_FILES, receipt.NAME)) for issue in issues):
            return issues
        return issues + self._contents()

    def describe_losses(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the figures that were recomputed, and those that could not be."""
        if self._is_private:
            unread = (TILES_UNREAD,) if TILES in self.names else ()
            known = presence_checks.describe_presence(self.manifest)
            return known, (*presence_checks.UNKNOWN, *unread, NOT_IN_FOLDER)
        if self._is_distribution:
            unread = (TILES_UNREAD,) if TILES in self.names else ()
            known = distribution_checks.describe_distribution(self.manifest)
            return known, (*distribution_checks.UNKNOWN, *unread, NOT_IN_FOLDER)
        if self.stated is None:
            return (), ()
        return (*_describe_recomputed(self.stated),), (
            *_describe_unknown(self.stated),
            *([TILES_UNREAD] if TILES in self.names else []),
            NOT_IN_FOLDER,
        )

    @property
    def _is_private(self) -> bool:
        """Whether presence is private in the release."""
        return self.manifest.get("model") == MODEL

    @property
    def _is_distribution(self) -> bool:
        """Whether the release has quantiles, shares or histograms."""
        return self.manifest.get("kind") == KIND

    def _contents(self) -> list[str]:
        """Return the differences of tables and statements from each other."""
        tell_share(FOLDER_CHECK, 0.45)
        name = "cells.parquet"
        try:
            table = self._read_table()
        except untrusted_files.ImplausibleError as error:
            return [f"{name} {error}."]
        except _READ_ERRORS:
            return [f"{name} cannot be read."]
        if self._is_private:
            return self._private_contents(table)
        if self._is_distribution:
            return self._distribution_contents(table)
        return self._public_contents(table)

    def _read_table(self) -> pa.Table:
        texts = (self.folder / "cells.csv").stat().st_size
        path = self.folder / "cells.parquet"
        centres = () if self.manifest["grid"].get("columns") else ("lat", "lon")
        numbers = frozenset((*distribution_checks.number_columns(self.manifest), *centres))
        if self._is_private:
            rows = self.manifest["grid"]["cells"]
            return untrusted_files.read_table(path, rows, texts, MODEL, numbers)
        return untrusted_files.read_table(path, len(self.manifest["cells"]), texts, "", numbers)

    def _public_contents(self, table: pa.Table) -> list[str]:
        """Return the differences of tables and statements under public presence."""
        issues: list[str] = []
        with contextlib.suppress(*_READ_ERRORS):
            issues.extend(file_comparison.check_columns(table, self.manifest))
            if issues:
                return issues
            issues.extend(file_comparison.check_places(table, self.manifest))
            if issues:
                return issues
            with np.errstate(all="ignore"):  # hostile numbers may be of any size
                self._numbers(table, issues)
            return issues
        return [*issues, "the tables and manifest.json cannot be compared."]

    def _private_contents(self, table: pa.Table) -> list[str]:
        """Return the differences of tables and statements under private presence."""
        with contextlib.suppress(*_READ_ERRORS), np.errstate(all="ignore"):
            issues = [*presence_checks.check_presence_table(table, self.manifest)]
            if issues:
                return issues
            issues += presence_checks.check_presence_losses(self.manifest)
            issues += presence_checks.check_presence_numbers(table, self.manifest)
            issues += self._spellings(table)
            issues += file_comparison.compare_readme(self.folder, table, self.manifest)
            issues += file_comparison.compare_metadata(self.folder, table, self.manifest)
            self.table = table
            return issues
        return ["the tables and manifest.json cannot be compared."]

    def _distribution_contents(self, table: pa.Table) -> list[str]:
        """Return the differences of tables and statements with quantiles and shares."""
        with contextlib.suppress(*_READ_ERRORS), np.errstate(all="ignore"):
            issues = [*distribution_checks.check_distribution_columns(table, self.manifest)]
            issues += [] if issues else file_comparison.check_places(table, self.manifest)
            if issues:
                return issues
            issues += distribution_checks.check_distribution_losses(table, self.manifest)
            issues += distribution_checks.check_distribution_numbers(table, self.manifest)
            issues += self._spellings(table)
            issues += file_comparison.compare_readme(self.folder, table, self.manifest)
            issues += file_comparison.compare_metadata(self.folder, table, self.manifest)
            self.table = table
            return issues
        return ["the tables and manifest.json cannot be compared."]

    def _spellings(self, table: pa.Table) -> Iterator[str]:
        """Yield where CSV and GeoJSON differ from the table."""
        for done, compared in (
            (0.5, file_comparison.compare_csv),
            (0.6, file_comparison.compare_geojson),
        ):
            tell_share(FOLDER_CHECK, done)
            try:
                yield from compared(self.folder, table)
            except _READ_ERRORS:
                yield f"cells.{compared.__name__} cannot be read."

    def _numbers(self, table: pa.Table, issues: list[str]) -> None:
        issues.extend(self._spellings(table))
        tell_share(FOLDER_CHECK, 0.75)
        stated = ReleaseStatements.from_release(self.manifest, table)
        issues.extend(file_comparison.check_numbers(table, stated))
        issues.extend(file_comparison.check_cut_off(table, self.manifest))
        issues.extend(accuracy_checks.check_accuracy(table, self.manifest))
        tell_share(FOLDER_CHECK, 0.8)
        issues.extend(loss_checks.find_problems(stated, square_checks.check_squares))
        tell_share(FOLDER_CHECK, 0.9)
        issues.extend(file_comparison.compare_readme(self.folder, table, self.manifest))
        issues.extend(file_comparison.compare_metadata(self.folder, table, self.manifest))
        self.stated, self.table = stated, table


def _check_manifest(manifest: Json) -> Iterator[str]:
    """Yield the places where the manifest breaks its schema."""
    version = manifest.get("schema_version")
    if not _is_version(version, SCHEMA_VERSION):
        version_text = version if isinstance(version, int) and abs(version) < 10**9 else "unknown"
        yield (
            f"manifest.json has schema version {version_text}, and this program reads "
            f"{SCHEMA_VERSION}; use the version of hexveil that it names."
        )
        return
    # The schema checks one cell after the other, but everything else at once: its size is limited
    # first.
    beside_cells = [section for key, section in manifest.items() if key != "cells"]
    if _has_more_parts(beside_cells, MAX_MANIFEST_PARTS):
        yield "manifest.json contains more beside its cells than a release does."
        return
    from jsonschema import Draft202012Validator  # noqa: PLC0415  only checking needs it

    is_private = manifest.get("model") == MODEL
    is_distribution = manifest.get("kind") == KIND
    rules = schema()
    if is_private or is_distribution:
        rules = presence_schema() if is_private else distribution_schema()
    errors = Draft202012Validator(rules).iter_errors(manifest)
    for error in itertools.islice(errors, MAX_PROBLEMS):
        place = "/".join(map(str, error.absolute_path)) or "its top"
        yield f"manifest.json breaks its schema at {place} ({error.validator})."
    if not is_private and not manifest.get("cells"):
        yield "manifest.json has no cells."
        return
    yield from column_totals.check_together(manifest)
    if is_distribution:
        # After the schema alone: what it composes must be there, and nothing else.
        yield from distribution_checks.check_statements(manifest)


def _is_version(version: object, supported: int) -> bool:
    return isinstance(version, int) and not isinstance(version, bool) and version == supported


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


def _describe_recomputed(stated: ReleaseStatements) -> Iterator[str]:
    """Yield the figures that were recomputed and agree, in words."""
    if stated.delta:
        yield from square_checks.describe_squares(stated)
        return
    recomputed, losses = recomputed_losses.recompute_losses(stated), stated.manifest["losses"]
    unit = stated.manifest["guarantee"]["privacy_unit"]
    together = losses["units"] * losses["mean"]
    yield (
        f"sum of the losses of {losses['units']:,} {unit}s: {recomputed.total} by scales, biases "
        f"and bounds, {together:.6g} as stated"
    )
    yield (
        f"loss of the most exposed {unit}: {recomputed.largest} by scales, bounds and counts, "
        f"{losses['max']:.6g} as stated"
    )


def _describe_unknown(stated: ReleaseStatements) -> Iterator[str]:
    """Yield the figures that could not be recomputed, in words."""
    unit = stated.manifest["guarantee"]["privacy_unit"]
    yield (
        f"the loss of each {unit}: the folder does not say who reported where, only how many, so "
        "the largest one is known within limits"
    )
    if stated.delta:
        yield "the exact sum of the squares of mu: they depend on who shares a cell with whom"
    else:
        total = recomputed_losses.recompute_losses(stated).total
        if not math.isclose(total.low, total.high, rel_tol=recomputed_losses.TOLERANCE):
            yield "the exact sum of the losses: variances or further steps leave limits"
    if not stated.has_no_range or stated.manifest["smoothing"]:
        yield "ends, grades, errors and counts that a model or a private interval leaves open"
    yield "the content of report.html: only its checksum was compared"
    if not file_comparison.is_same_version(stated.manifest):
        yield "the words of README.txt: another version of hexveil wrote them"
