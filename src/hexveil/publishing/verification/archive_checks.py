"""Verification of an archive: its current releases, and the catalogue that lists them.

The folder may come from anybody: pointers that lead out of their day are not followed, and files
that are not regular or too large are not read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.fs

from hexveil.base.errors import InputError
from hexveil.base.work_share import FOLDER_CHECK, parts_of_work
from hexveil.publishing.archive import archive_catalogue
from hexveil.publishing.archive.archive_listing import (
    DATASET_NAME,
    DAY_NAME,
    LATEST,
    ArchiveFiles,
    listed_day,
    listed_days,
    newest_days,
)
from hexveil.publishing.verification.verify import find_problems as find_release_problems

MAX_DAYS = 10_000
_FORGED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions of descriptions that a stranger wrote."""


@dataclass(frozen=True)
class ArchiveVerdict:
    """Result of checking an archive.

    Attributes
    ----------
    problems : tuple of str
        Its problems, a sentence each.
    releases : int
        Number of current releases that were checked.
    """

    problems: tuple[str, ...]
    releases: int


def is_archive(folder: Path) -> bool:
    """Return whether a folder is that of an archive, or of a data set in one."""
    names = (archive_catalogue.CATALOG, archive_catalogue.COLLECTION, LATEST)
    is_other = DAY_NAME.fullmatch(folder.absolute().name) or (folder / "manifest.json").exists()
    return not is_other and any((folder / name).is_file() for name in names)


def current_release(folder: Path) -> Path:
    """Return the release that the folder of a day names as current; another folder as it is."""
    path = folder.absolute()
    archive = ArchiveFiles(pa.fs.LocalFileSystem(), path.parent.as_posix())
    listed = listed_day(archive, path.name) if DAY_NAME.fullmatch(path.name) else None
    return folder / Path(listed.release.path).name if listed else folder


def release_folders(folder: Path, begin: str, end: str) -> list[Path]:
    """Return the folders of the current releases of some days of an archive of one data set.

    Raises
    ------
    InputError
        If the archive has several data sets, or none.
    """
    place = ArchiveFiles(pa.fs.LocalFileSystem(), folder.absolute().as_posix())
    if (folder / archive_catalogue.CATALOG).is_file():
        names = place.folders(DATASET_NAME)
        if len(names) != 1:
            raise InputError(f"{folder} has {len(names)} data sets; name the folder of one.")
        place = place.below(names[0])
    releases = (entry.release for entry in listed_days(place))
    return [Path(place.path(release.path)) for release in releases if begin <= release.day <= end]


def check_archive(folder: Path, *, key: str | Path | None = None) -> ArchiveVerdict:
    """Check the current releases of an archive or of one data set, and their catalogue.

    Raises
    ------
    InputError
        If it has more days than can be checked, or the key cannot be read.
    """
    place = ArchiveFiles(pa.fs.LocalFileSystem(), folder.absolute().as_posix())
    if (folder / archive_catalogue.CATALOG).is_file():
        names, problems = _check_list(place)
        verdicts = [
            _check_dataset(place.below(name), name, f"{name}/", key)
            for name in parts_of_work(FOLDER_CHECK, names)
        ]
    else:
        problems, verdicts = [], [_check_dataset(place, folder.absolute().name, "", key)]
    for verdict in verdicts:
        problems += verdict.problems
    return ArchiveVerdict(tuple(problems), sum(verdict.releases for verdict in verdicts))


def _check_list(place: ArchiveFiles) -> tuple[list[str], list[str]]:
    """Return the data sets of an archive, and the problems of the list of them."""
    datasets = newest_days(place)
    # Also those of which no release is whole: a catalogue without them would be as it should be.
    names = place.folders(DATASET_NAME)
    try:
        expected = archive_catalogue.archive_files(datasets) if datasets else {}
        return names, [*_compare(place, expected, "")]
    except _FORGED:
        return names, [f"{archive_catalogue.CATALOG} cannot be compared."]


def _check_dataset(
    place: ArchiveFiles, name: str, prefix: str, key: str | Path | None
) -> ArchiveVerdict:
    """Check a data set; `prefix` is where its folder is, for messages."""
    days = place.folders(DAY_NAME)
    if len(days) > MAX_DAYS:
        raise InputError(f"{name} has more than {MAX_DAYS:,} days; check its releases one by one.")
    listed = listed_days(place)
    problems = [
        f"{prefix}{day}: its {LATEST} names no complete release of that day."
        for day in sorted({*days} - {entry.release.day for entry in listed})
    ]
    for entry in parts_of_work(FOLDER_CHECK, listed):
        problems += [
            f"{prefix}{entry.release.path}: {problem}"
            for problem in find_release_problems(place.path(entry.release.path), key=key)
        ]
    try:
        expected = archive_catalogue.dataset_files(listed, name) if listed else {}
        problems += _compare(place, expected, prefix)
        problems += [
            f"{prefix}{path} lists releases that are not there."
            for path in archive_catalogue.obsolete_files(place, expected)
        ]
    except _FORGED:
        problems.append(f"{prefix}{archive_catalogue.COLLECTION} cannot be compared.")
    return ArchiveVerdict(tuple(problems), len(listed))


def _compare(place: ArchiveFiles, expected: dict[str, bytes], prefix: str) -> Iterator[str]:
    """Yield the files of a catalogue that are missing or do not list the releases as they are."""
    for path, content in expected.items():
        present = place.read(path)
        if present is None:
            yield f"{prefix}{path} is missing."
        # The holder may have a page of its own.
        elif present != content and archive_catalogue.OWN_MARK in present:
            yield f"{prefix}{path} is not what the releases say; hexveil publish writes it again."
