"""Pages over an archive: a calendar of a data set's days, and the list of data sets.

They need no script and no other host, and a reader can follow them by keyboard and screen reader.
"""

from __future__ import annotations

import calendar
import json
from datetime import date
from typing import Any

from hexveil.publishing.archive.archive_listing import DatasetSummary, ListedDay
from hexveil.publishing.catalogue.metadata_files import SCHEMA_ORG_CONTEXT
from hexveil.report.templates import format_rounded_up, render_template

Values = dict[str, Any]

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_DATA = ("parquet", "csv", "geojson", "pmtiles")


def render_calendar_page(days: list[ListedDay]) -> str:
    """Return the page of a data set: a calendar, and a table of its releases, newest first."""
    newest = days[-1].item["properties"]
    rows = [_row(day) for day in days]
    by_day = {row["day"]: row for row in rows}
    months = sorted({row["day"][:7] for row in rows}, reverse=True)
    return render_template(
        "archive/calendar.html",
        {
            "title": newest["title"],
            "description": newest["description"],
            "promise": newest["hexveil:privacy"]["promise"],
            "privacy_unit": newest["hexveil:privacy"]["privacy_unit"],
            "holder": _holder(days[-1]),
            "newest": rows[-1],
            "months": [_month(month, by_day) for month in months],
            "rows": rows[::-1],
            "json_ld": _json_ld(days[-1]),
        },
    )


def render_archive_page(datasets: list[DatasetSummary]) -> str:
    """Return the page over all data sets."""
    entries = [
        {
            "folder": dataset.folder,
            "title": dataset.newest.item["properties"]["title"],
            "description": dataset.newest.item["properties"]["description"],
            "first": day_in_words(dataset.first_day),
            "newest": day_in_words(dataset.newest.release.day),
        }
        for dataset in datasets
    ]
    return render_template("archive/datasets.html", {"datasets": entries})


def day_in_words(day: str) -> str:
    """Return an ISO date in words.

    Examples
    --------
    >>> day_in_words("2026-11-05")
    '5 November 2026'
    """
    of = date.fromisoformat(day)
    return f"{of.day} {MONTHS[of.month - 1]} {of.year}"


def _row(day: ListedDay) -> Values:
    """Return a day with its figures and the addresses of its files, relative to the page."""
    release, item = day.release, day.item
    addresses = {
        key: f"{release.path}/{asset['href'].removeprefix('./')}"
        for key, asset in item["assets"].items()
    }
    return {
        "day": release.day,
        "words": day_in_words(release.day),
        "number": int(release.day[8:]),
        "cells": item["properties"]["table:row_count"],
        "epsilon": format_rounded_up(float(item["properties"]["hexveil:privacy"]["epsilon"])),
        "page": addresses.get("report", f"{release.path}/"),
        "files": [{"name": key, "address": addresses[key]} for key in _DATA if key in addresses],
    }


def _month(month: str, by_day: dict[str, Values]) -> Values:
    """Return a month: its weeks from Monday, with a day's row where there is a release."""
    year, number = map(int, month.split("-"))
    weeks = calendar.Calendar().monthdayscalendar(year, number)
    return {
        "name": f"{MONTHS[number - 1]} {year}",
        "weeks": [
            [
                {"number": day, "row": by_day.get(f"{month}-{day:02d}", {})} if day else {}
                for day in week
            ]
            for week in weeks
        ],
    }


def _holder(day: ListedDay) -> Values:
    """Return publisher and licence for the page; texts are empty where they are not stated."""
    properties = day.item["properties"]
    provider: Values = next(iter(properties.get("providers", [])), {})
    licence = next((link["href"] for link in day.item["links"] if link["rel"] == "license"), "")
    name = properties.get("license", "")
    return {
        "publisher": provider.get("name", ""),
        "publisher_url": provider.get("url", ""),
        "license": licence if name == "other" else name,
        "license_url": licence,
    }


def _json_ld(day: ListedDay) -> str:
    """Return the data catalogue of schema.org, fit to stand inside an element of a page."""
    properties, holder = day.item["properties"], _holder(day)
    optional = {
        "publisher": {"@type": "Organization", "name": holder["publisher"]}
        if holder["publisher"]
        else None,
        "license": holder["license_url"],
        "keywords": properties.get("keywords"),
    }
    stated = {name: fact for name, fact in optional.items() if fact}
    newest = {
        "@type": "Dataset",
        "name": properties["title"],
        "description": properties["description"],
        "temporalCoverage": f"{properties['start_datetime']}/{properties['end_datetime']}",
        **stated,
    }
    content = {
        "@context": SCHEMA_ORG_CONTEXT,
        "@type": "DataCatalog",
        "name": properties["title"],
        "description": properties["description"],
        **stated,
        "dataset": [newest],
    }
    return json.dumps(content, ensure_ascii=False).replace("<", "\\u003c")
