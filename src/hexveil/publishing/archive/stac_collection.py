"""STAC Collection of a data set's days, their Items, and the STAC Catalog over all data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexveil.publishing.archive.archive_listing import base_url
from hexveil.publishing.catalogue.stac import VERSION

if TYPE_CHECKING:
    from hexveil.publishing.archive.archive_listing import DatasetSummary, ListedDay

    Json = dict[str, Any]

_WORLD = [-180.0, -90.0, 180.0, 90.0]
_HOLDER_FIELDS = ("keywords", "providers")
_JSON, _GEOJSON = {"type": "application/json"}, {"type": "application/geo+json"}


def day_item(day: ListedDay, folder: str) -> Json:
    """Return the Item of a day: that of its current release, with links to the Collection."""
    release = day.release
    inside = f"./{release.path.removeprefix(f'{release.day}/')}"
    assets = {
        key: asset | {"href": f"{inside}/{asset['href'].removeprefix('./')}"}
        for key, asset in day.item["assets"].items()
    }
    links = [
        *_self_link(base_url(day, folder), f"{folder}/{release.day}/item.json", _GEOJSON),
        {"rel": "root", "href": "../../catalog.json", **_JSON},
        {"rel": "parent", "href": "../collection.json", **_JSON},
        {"rel": "collection", "href": "../collection.json", **_JSON},
        *day.item["links"],
    ]
    return day.item | {"collection": folder, "links": links, "assets": assets}


def collection(days: list[ListedDay], folder: str) -> Json:
    """Return the Collection of a data set; its newest release describes it."""
    newest, base = days[-1].item, base_url(days[-1], folder)
    properties = newest["properties"]
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
            "temporal": {"interval": [_interval(days)]},
        },
        "summaries": {
            "hexveil:privacy_unit": [properties["hexveil:privacy"]["privacy_unit"]],
        },
        "links": [
            *_self_link(base, f"{folder}/collection.json", _JSON),
            {"rel": "root", "href": "../catalog.json", **_JSON},
            {"rel": "parent", "href": "../catalog.json", **_JSON},
            *(
                {"rel": "item", "href": f"./{day.release.day}/item.json", **_GEOJSON}
                for day in days
            ),
            {"rel": "alternate", "href": "./index.html", "type": "text/html"},
            {"rel": "alternate", "href": "./dcat.jsonld", "type": "application/ld+json"},
            *newest["links"],
        ],
    }


def archive_catalog(datasets: list[DatasetSummary]) -> Json:
    """Return the Catalog over all data sets."""
    base = base_url(datasets[-1].newest, datasets[-1].folder)
    return {
        "type": "Catalog",
        "stac_version": VERSION,
        "id": "hexveil-archive",
        "title": "Published data sets",
        "description": "Differentially private statistics, a Collection for each data set; made "
        "with hexveil.",
        "links": [
            *_self_link(base, "catalog.json", _JSON),
            {"rel": "root", "href": "./catalog.json", **_JSON},
            *(
                {
                    "rel": "child",
                    "href": f"./{dataset.folder}/collection.json",
                    "title": dataset.newest.item["properties"]["title"],
                    **_JSON,
                }
                for dataset in datasets
            ),
        ],
    }


def _self_link(base: str | None, path: str, media_type: Json) -> list[Json]:
    """Return the link to the file itself, where its address is known."""
    return [] if base is None else [{"rel": "self", "href": f"{base}{path}", **media_type}]


def _interval(days: list[ListedDay]) -> list[str]:
    properties = [day.item["properties"] for day in days]
    return [
        min(each["start_datetime"] for each in properties),
        max(each["end_datetime"] for each in properties),
    ]


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
