"""DCAT-AP catalogue of a data set's days as a dataset series, and the catalogue over data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexveil.publishing.archive.archive_listing import base_url
from hexveil.publishing.catalogue.dcat import HERE, context, text

if TYPE_CHECKING:
    from hexveil.publishing.archive.archive_listing import DatasetSummary, ListedDay

    Node = dict[str, Any]

_HOLDER_PROPERTIES = ("dct:publisher", "dct:language", "dcat:contactPoint")
_SERIES_PROPERTIES = (*_HOLDER_PROPERTIES, "dcat:keyword", "dcat:theme", "dcat:landingPage")
_SERIES = f"{HERE}#series"


def dataset_catalogue(days: list[ListedDay], folder: str) -> Node:
    """Return the catalogue of a data set: a dataset for each day, in one series."""
    newest, base = days[-1].dataset, base_url(days[-1], folder)
    series = {
        "@id": _SERIES,
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


def archive_document(datasets: list[DatasetSummary]) -> Node:
    """Return the catalogue over all data sets: a catalogue for each of them."""
    newest = max(datasets, key=lambda dataset: dataset.newest.release.day)
    return {
        "@context": context(base_url(newest.newest, newest.folder)),
        "@id": HERE,
        "@type": "dcat:Catalog",
        "dct:title": text("Published data sets", "en"),
        "dct:description": text(
            "Differentially private statistics, a catalogue for each data set; made with hexveil.",
            "en",
        ),
        **_taken(newest.newest.dataset, _HOLDER_PROPERTIES),
        "dcat:catalog": [_sub_catalogue(dataset) for dataset in datasets],
    }


def _sub_catalogue(dataset: DatasetSummary) -> Node:
    node = dataset.newest.dataset
    return {
        "@id": f"{dataset.folder}/",
        "@type": "dcat:Catalog",
        "dct:title": node["dct:title"],
        "dct:description": node["dct:description"],
        **_taken(node, _HOLDER_PROPERTIES),
        "rdfs:seeAlso": {"@id": f"{dataset.folder}/dcat.jsonld"},
    }


def _dataset(day: ListedDay) -> Node:
    """Return a day's dataset, with addresses relative to the folder of the data set."""
    folder = f"{day.release.path}/"
    node = {name: part for name, part in _moved(day.dataset, folder).items() if name != "@context"}
    return node | {"dcat:inSeries": {"@id": _SERIES}}


def _moved(node: Any, folder: str) -> Any:  # noqa: ANN401  JSON
    """Return JSON-LD with relative addresses that begin at a folder.

    Examples
    --------
    >>> _moved({"@id": "./", "p": [{"@id": "cells.csv"}, {"@id": "https://a.org/x"}]}, "day/1/")
    {'@id': 'day/1/', 'p': [{'@id': 'day/1/cells.csv'}, {'@id': 'https://a.org/x'}]}
    """
    if isinstance(node, list):
        return [_moved(part, folder) for part in node]
    if not isinstance(node, dict):
        return node
    return {
        name: f"{folder}{part.removeprefix(HERE)}"
        # A colon: an address with a scheme, or a name with a prefix.
        if name == "@id" and isinstance(part, str) and ":" not in part
        else _moved(part, folder)
        for name, part in node.items()
    }


def _taken(node: Node, names: tuple[str, ...]) -> Node:
    return {name: node[name] for name in names if name in node}
