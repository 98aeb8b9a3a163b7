"""Static catalogue of an archive: files that a portal harvests and a page with a calendar.

    ROOT/catalog.json, dcat.jsonld, index.html             over all data sets
    ROOT/dataset/collection.json, dcat.jsonld, index.html  over the days of a data set
    ROOT/dataset/2026-11-20/item.json                      the day's current release

All of it is computed from the pointers and the descriptions in the release folders, so writing it
again repairs it: after a crash, and after a release was removed. Each file is replaced as a whole;
Items are written before what lists them, and removed after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexveil.publishing.archive.archive_listing import DAY_NAME, listed_datasets, listed_days
from hexveil.publishing.archive.dcat_catalogue import archive_document, dataset_catalogue
from hexveil.publishing.archive.index_pages import render_archive_page, render_calendar_page
from hexveil.publishing.archive.stac_collection import archive_catalog, collection, day_item
from hexveil.publishing.catalogue.metadata_files import DCAT, to_bytes

if TYPE_CHECKING:
    from hexveil.publishing.archive.archive_listing import ArchiveFiles, DatasetSummary, ListedDay

COLLECTION, CATALOG, ITEM, PAGE = "collection.json", "catalog.json", "item.json", "index.html"
OWN_MARK = b"hexveil"
"""In every file of a catalogue; a file without it is the holder's, and is not replaced."""


def update_catalogue(root: ArchiveFiles, folder: str) -> int:
    """Write the catalogue of a data set and the one over all data sets; return its days.

    Parameters
    ----------
    root : ArchiveFiles
        The archive.
    folder : str
        Folder of the data set in it.
    """
    archive = root.below(folder)
    if not archive.exists():
        return 0
    # The locks make the last writer the one that saw all releases.
    with archive.locked():
        days = listed_days(archive)
        files = dataset_files(days, folder) if days else {}
        _replace(archive, files, obsolete_files(archive, files))
    with root.locked():
        datasets = listed_datasets(root)
        _replace(root, archive_files(datasets) if datasets else {}, [])
    return len(days)


def obsolete_files(archive: ArchiveFiles, files: dict[str, bytes]) -> list[str]:
    """Return the files of a data set's catalogue that it should not have."""
    possible = [DCAT, COLLECTION, PAGE, *(f"{day}/{ITEM}" for day in archive.folders(DAY_NAME))]
    return [path for path in possible if path not in files and archive.read(path) is not None]


def _replace(place: ArchiveFiles, files: dict[str, bytes], obsolete: list[str]) -> None:
    """Write files in their order, then delete obsolete ones; leave the holder's own files."""
    for path, content in files.items():
        if OWN_MARK in (place.read(path) or OWN_MARK):
            place.write(path, content)
    for path in obsolete:
        if OWN_MARK in (place.read(path) or b""):
            place.delete(path)


def dataset_files(days: list[ListedDay], folder: str) -> dict[str, bytes]:
    """Return the catalogue of a data set, by path below its folder: Items first.

    Parameters
    ----------
    days : list of ListedDay
        At least one.
    folder : str
        Name of its folder.
    """
    items = {f"{day.release.day}/{ITEM}": to_bytes(day_item(day, folder)) for day in days}
    return items | {
        DCAT: to_bytes(dataset_catalogue(days, folder)),
        COLLECTION: to_bytes(collection(days, folder)),
        PAGE: render_calendar_page(days).encode(),
    }


def archive_files(datasets: list[DatasetSummary]) -> dict[str, bytes]:
    """Return the catalogue over all data sets, by file name."""
    return {
        DCAT: to_bytes(archive_document(datasets)),
        CATALOG: to_bytes(archive_catalog(datasets)),
        PAGE: render_archive_page(datasets).encode(),
    }
