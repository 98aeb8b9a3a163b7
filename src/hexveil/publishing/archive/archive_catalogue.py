"""Static catalogue of an archive: files that a portal harvests and pages for people.

    ROOT/catalog.json, index.html                          over all data sets
    ROOT/dataset/collection.json, dcat.jsonld, index.html  over the days of a data set

All of it is computed from the pointers and the descriptions in the release folders, so writing it
again repairs it: after a crash, and after a release was removed. The Items are those of the release
folders. Each file is replaced as a whole. A page is one file, whose only script is the search.
"""

import calendar
from collections import defaultdict
from datetime import date
from typing import Any

from hexveil.publishing.archive.archive_listing import (
    DAY_NAME,
    ArchiveFiles,
    ListedDay,
    base_url,
    listed_days,
    newest_days,
)
from hexveil.publishing.catalogue.metadata_files import (
    DCAT,
    HERE,
    ITEM,
    VERSION,
    context,
    text,
    to_bytes,
)
from hexveil.report.origin import period
from hexveil.report.templates import format_rounded_up, render_template

Json = dict[str, Any]

COLLECTION, CATALOG, PAGE = "collection.json", "catalog.json", "index.html"
FORMER_ITEM = "item.json"
"""In the folders of days, by earlier versions alone."""
OWN_MARK = b"hexveil"
"""In every file of a catalogue; a file without it is the holder's, and is not replaced."""
_HOLDER_PROPERTIES = ("dct:publisher", "dcat:contactPoint")
_SERIES_PROPERTIES = (*_HOLDER_PROPERTIES, "dcat:keyword", "dcat:theme", "dcat:landingPage")
SERIES = "#series"
_WORLD = [-180.0, -90.0, 180.0, 90.0]
_HOLDER_FIELDS = ("keywords", "providers")
_JSON, _GEOJSON = {"type": "application/json"}, {"type": "application/geo+json"}
_TABLES = ("parquet", "csv", "geojson")


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
        datasets = newest_days(root)
        # Earlier versions wrote a catalogue of DCAT here too, which would go stale.
        _replace(root, archive_files(datasets) if datasets else {}, [DCAT])
    return len(days)


def obsolete_files(archive: ArchiveFiles, files: dict[str, bytes]) -> list[str]:
    """Return the files of a data set's catalogue that it should not have."""
    former = (f"{day}/{FORMER_ITEM}" for day in archive.folders(DAY_NAME))
    possible = [DCAT, COLLECTION, PAGE, *former]
    return [path for path in possible if path not in files and archive.read(path) is not None]


def _replace(place: ArchiveFiles, files: dict[str, bytes], obsolete: list[str]) -> None:
    """Write files in their order, then delete obsolete ones; leave the holder's own files."""
    for path, content in files.items():
        if OWN_MARK in (place.read(path) or OWN_MARK):
            place.write(path, content)
    for path in obsolete:
        if OWN_MARK in (place.read(path) or b""):
            place.files.delete_file(place.full(path))


def dataset_files(days: list[ListedDay], folder: str) -> dict[str, bytes]:
    """Return the catalogue of a data set, by path below its folder.

    Parameters
    ----------
    days : list of ListedDay
        At least one.
    folder : str
        Name of its folder.
    """
    return {
        DCAT: to_bytes(dataset_catalogue(days, folder)),
        COLLECTION: to_bytes(collection(days, folder)),
        PAGE: render_calendar_page(days).encode(),
    }


def archive_files(datasets: dict[str, ListedDay]) -> dict[str, bytes]:
    """Return the catalogue over all data sets, by file name."""
    return {
        CATALOG: to_bytes(archive_catalog(datasets)),
        PAGE: render_archive_page(datasets).encode(),
    }


def collection(days: list[ListedDay], folder: str) -> Json:
    """Return the Collection of a data set; its newest release describes it."""
    newest = days[-1].item
    properties = newest["properties"]
    starts, ends = (
        [day.item["properties"][f"{end}_datetime"] for day in days] for end in ("start", "end")
    )
    return {
        "type": "Collection",
        "stac_version": VERSION,
        "id": folder,
        "title": properties["title"],
        "description": properties["description"],
        # A Collection must have one: "other" without a link to it means that none is stated.
        "license": properties.get("license", "other"),
        **{name: properties[name] for name in _HOLDER_FIELDS if name in properties},
        "extent": {
            "spatial": {"bbox": [_union([day.item.get("bbox") for day in days])]},
            "temporal": {"interval": [[min(starts), max(ends)]]},
        },
        "summaries": {"hexveil:privacy_unit": [properties["hexveil:privacy"]["privacy_unit"]]},
        "links": [
            {"rel": "root", "href": "../catalog.json", **_JSON},
            {"rel": "parent", "href": "../catalog.json", **_JSON},
            *({"rel": "item", "href": f"./{day.release.path}/{ITEM}", **_GEOJSON} for day in days),
            {"rel": "alternate", "href": "./index.html", "type": "text/html"},
            {"rel": "alternate", "href": "./dcat.jsonld", "type": "application/ld+json"},
            *newest["links"],
        ],
    }


def archive_catalog(datasets: dict[str, ListedDay]) -> Json:
    """Return the Catalog over all data sets."""
    return {
        "type": "Catalog",
        "stac_version": VERSION,
        "id": "hexveil-archive",
        "title": "Published data sets",
        "description": "Differentially private statistics, a Collection for each data set; made "
        "with hexveil.",
        "links": [
            {"rel": "root", "href": "./catalog.json", **_JSON},
            *(
                {
                    "rel": "child",
                    "href": f"./{folder}/collection.json",
                    "title": newest.item["properties"]["title"],
                    **_JSON,
                }
                for folder, newest in datasets.items()
            ),
        ],
    }


def _union(boxes: list[list[float] | None]) -> list[float]:
    """Return the box around boxes; the world where none is known.

    Examples
    --------
    >>> _union([[1.0, 2.0, 3.0, 4.0], [0.0, 3.0, 2.0, 5.0], None])
    [0.0, 2.0, 3.0, 5.0]
    """
    known = [box for box in boxes if box is not None]
    if not known:
        return _WORLD
    wests, souths, easts, norths = zip(*known, strict=True)
    crossing = {west > east for west, east in zip(wests, easts, strict=True)}
    # Boxes on one side of the 180th meridian and boxes across it: all longitudes.
    west, east = (min(wests), max(easts)) if len(crossing) == 1 else (_WORLD[0], _WORLD[2])
    return [west, min(souths), east, max(norths)]


def dataset_catalogue(days: list[ListedDay], folder: str) -> Json:
    """Return the catalogue of a data set: a dataset for each day, in one series."""
    newest, base = days[-1].dataset, base_url(days[-1], folder)
    series = {
        "@id": f"{HERE}{SERIES}",
        "@type": ["dcat:DatasetSeries", "dcat:Dataset"],
        "dct:title": newest["dct:title"],
        "dct:description": newest["dct:description"],
        **_taken(newest, _SERIES_PROPERTIES),
    }
    return {
        "@context": context(None if base is None else f"{base}{folder}/"),
        "@id": HERE,
        "@type": "dcat:Catalog",
        "dct:title": newest["dct:title"],
        "dct:description": text(
            "Differentially private statistics, a dataset for each day; made with hexveil.", "en"
        ),
        **_taken(newest, _HOLDER_PROPERTIES),
        "dcat:dataset": [series, *(_dataset(day) for day in days)],
    }


def _dataset(day: ListedDay) -> Json:
    """Return a day's dataset with addresses that begin at its own folder."""
    base = {"@base": f"{day.release.path}/"}
    return day.dataset | {"@context": base, "dcat:inSeries": {"@id": f"../../{SERIES}"}}


def _taken(node: Json, names: tuple[str, ...]) -> Json:
    return {name: node[name] for name in names if name in node}


def render_calendar_page(days: list[ListedDay]) -> str:
    """Return the page of a data set: newest map, calendar, table of releases."""
    item = days[-1].item
    rows = {row["day"]: row for row in map(_row, days)}
    months = sorted({day[:7] for day in rows}, reverse=True)
    return render_template(
        "archive/calendar.html",
        {
            "properties": item["properties"],
            "provider": defaultdict(str, *item["properties"].get("providers", [])[:1]),
            "licence": next((x["href"] for x in item["links"] if x["rel"] == "license"), ""),
            "months": [_month(month, rows) for month in months],
            "rows": [*rows.values()][::-1],
        },
    )


def render_archive_page(datasets: dict[str, ListedDay]) -> str:
    """Return the page over all data sets."""
    entries = [
        {"folder": folder, "properties": day.item["properties"], "newest": _row(day)}
        for folder, day in datasets.items()
    ]
    return render_template("archive/datasets.html", {"datasets": entries})


def _in_words(day: str) -> str:
    """Return an ISO date in words: "5 November 2026"."""
    return period((day, day), "", brief=True)


def _row(day: ListedDay) -> Json:
    """Return a day with its figures and the addresses of its files, relative to the page."""
    release, properties = day.release, day.item["properties"]
    addresses = {
        key: f"{release.path}/{asset['href'].removeprefix('./')}"
        for key, asset in day.item["assets"].items()
    }
    return {
        "day": release.day,
        "words": _in_words(release.day),
        "weekday": date.fromisoformat(release.day).weekday(),
        "cells": properties["table:row_count"],
        "epsilon": format_rounded_up(float(properties["hexveil:privacy"]["epsilon"])),
        "page": addresses.get("report", f"{release.path}/"),
        "files": {key: addresses[key] for key in _TABLES if key in addresses},
        "item": f"{release.path}/{ITEM}",
    }


def _month(month: str, rows: dict[str, Json]) -> Json:
    """Return a month: its weeks from Monday, with a day's row where there is a release."""
    weeks = calendar.Calendar().monthdayscalendar(*map(int, month.split("-")))
    return {
        "name": _in_words(f"{month}-01").partition(" ")[2],
        "weeks": [
            [{"number": day, "row": rows.get(f"{month}-{day:02d}", {})} for day in week]
            for week in weeks
        ],
    }
