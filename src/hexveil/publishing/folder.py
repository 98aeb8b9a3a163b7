"""The release folder: written under a temporary name, then renamed; never changed afterwards.

Numbers of a table rounded to digits that their intervals can carry, for CSV and GeoJSON.

A digit is at most a twentieth of half of the narrowest interval, so 19.354014864810114 from 13.9 to
24.8 is 19.4. Ends are rounded outwards; scales, biases and bounds keep one digit more and are
rounded up, so that no error is understated. `cells.parquet` has the doubles.
"""

import contextlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from hexveil.base import atomic_files
from hexveil.base.arrays import Floats
from hexveil.base.arrow_tables import write_csv
from hexveil.base.errors import InputError, StorageError
from hexveil.publishing import receipt, signing
from hexveil.publishing.catalogue import metadata_files
from hexveil.publishing.catalogue.holder_statements import Catalogue
from hexveil.publishing.components import column_prefixes, statements, statements_of_whole
from hexveil.publishing.estimates import places
from hexveil.publishing.estimates.places import with_places
from hexveil.publishing.memory import stored_day
from hexveil.publishing.memory.stored_day import Rows
from hexveil.publishing.part_kinds import split_by_column
from hexveil.publishing.readme import render_readme
from hexveil.report.geography.context import read_context
from hexveil.report.manifest_view import numbers_of
from hexveil.report.templates import LANGUAGES

PAGE = "report.html"
GEOJSON_LIMIT = 50_000_000
"""Bytes; a larger map is left to cells.parquet."""
TITLES = ("title", "subtitle")
MAX_TITLE = 300


@dataclass(frozen=True)
class FolderOptions:
    """Statements of the holder about a folder, beside its release.

    Attributes
    ----------
    context : str or Path, optional
        GeoJSON file drawn beneath the map.
    sign : str or Path, optional
        File of the private key that signs the folder.
    catalogue : Catalogue, optional
        Facts for data portals.
    title, subtitle : str
        By default those of the manifest, else what is averaged and the name of the data set; on
        one line each.
    language : str
        Of page and README.txt, one of `report.templates.LANGUAGES`.
    geography : bool
        Whether the page's map has coast, rivers, borders and names of places from the package.

    Raises
    ------
    InputError
        If a title has a line break or another control character, or is too long, or there is no
        such language.
    """

    context: str | Path | None = None
    sign: str | Path | None = None
    catalogue: Catalogue | None = None
    title: str = ""
    subtitle: str = ""
    language: str = "en"
    geography: bool = True

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            raise InputError(
                f"language must be one of {', '.join(LANGUAGES)}, got {self.language!r}."
            )
        for name in TITLES:
            text = getattr(self, name)
            if not (isinstance(text, str) and text.isprintable() and len(text) <= MAX_TITLE):
                raise InputError(
                    f"{name} must be text on one line of at most {MAX_TITLE} letters, got {text!r}."
                )

    def stated(self) -> dict[str, Any]:
        """Return titles, language and facts that were stated, as the manifest holds them."""
        titles = {name: text for name in TITLES if (text := getattr(self, name))}
        language = {} if self.language == "en" else {"language": self.language}
        facts = {} if self.catalogue is None else self.catalogue.stated()
        return titles | language | ({"catalogue": facts} if facts else {})


def check_writable(folder: str | Path) -> Path:
    """Return the folder's path if it can be made; to be called before anything is spent.

    Raises
    ------
    InputError
        If it exists, or the place where it would stand cannot be written. Nothing is made.
    """
    path = Path(folder)
    try:
        exists = path.exists() or path.is_symlink()
        place = next(p for p in path.absolute().parents if p.exists())
        if not exists:
            atomic_files.check_writable(place / path.name)
    except OSError as error:
        raise InputError(
            f"the folder {path} cannot be created ({atomic_files.reason(error)}); name one where "
            "you may write."
        ) from None
    if exists:
        raise InputError(f"{path} exists, and is never written into; name a new folder (--out).")
    return path


def write(
    table: pa.Table,
    manifest: dict[str, Any],
    folder: str | Path,
    options: FolderOptions | None = None,
    memory: Rows | None = None,
) -> Path:
    """Write all files of a release and return the folder.

    Until the last step they stand under a temporary name. If a step fails, they go, and with them
    the folders above that were made for them.
    """
    # Key and context are read first: a mistake in either must not leave a folder behind.
    options = options or FolderOptions()
    signer = None if options.sign is None else signing.read_signing_key(options.sign)
    context = None if options.context is None else read_context(options.context)
    manifest = manifest | options.stated()
    # What the holder declares can name the period, and hide the geography.
    placed = with_places(table, statements_of_whole(manifest), geography=options.geography)
    with new_folder(folder) as temporary:
        write_tables(temporary, placed)
        write_json(temporary / "manifest.json", manifest)
        if memory is not None:
            (temporary / stored_day.FILE).write_bytes(stored_day.to_bytes(memory))
        names = frozenset(path.name for path in temporary.iterdir()) | {"README.txt", PAGE}
        texts, page = derive_texts(placed, manifest, names)
        for name, content in texts.items():
            (temporary / name).write_bytes(content)
        made = page(context=context, geography=options.geography)
        (temporary / PAGE).write_text(made, "utf-8")
        # The receipt is last, since it has all checksums.
        receipt.write(temporary, manifest)
        if signer is not None:
            signer.write(temporary)
    return Path(folder)


@contextlib.contextmanager
def new_folder(folder: str | Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes a release; nothing stays if a step fails.

    Raises
    ------
    InputError, StorageError
        See `write`.
    """
    path = check_writable(folder)
    # Noted before the first is made, so that only our own empty folders are removed.
    missing = [above for above in path.absolute().parents if not above.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_files.folder(path) as temporary:
            yield temporary
    except OSError as error:
        raise StorageError(
            f"the folder could not be written to {path} ({atomic_files.reason(error)}); nothing "
            "was left there. Repeating the request costs nothing."
        ) from None
    finally:
        # Innermost first, up to the first one that holds something.
        with contextlib.suppress(OSError):
            for above in missing:
                above.rmdir()


def write_tables(folder: Path, table: pa.Table) -> None:
    """Write the table in each format, with outlines where there are hexagons."""
    pa.parquet.write_table(
        places.with_geometry(table), folder / "cells.parquet", compression="zstd"
    )
    rounded = round_to_intervals(table)
    write_csv(rounded, folder / "cells.csv")
    features = places.geojson(rounded)
    if features is not None and len(features) <= GEOJSON_LIMIT:
        (folder / "cells.geojson").write_bytes(features)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON for people and programs."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", "utf-8")


def derive_texts(
    table: pa.Table, manifest: dict[str, Any], names: frozenset[str]
) -> tuple[dict[str, bytes], Callable[..., str]]:
    """Return the files that follow from table and manifest: written, and again to check them.

    README.txt and the descriptions for portals, by name; and what makes the page, given `context`
    and `geography` (see `report.page.render`). `names` are those of the release's files.
    """
    from hexveil.report.page import render  # noqa: PLC0415  drawing is slow to import

    stated, whole = statements(manifest), statements_of_whole(manifest)
    descriptions = metadata_files.render_metadata(table, whole, names)
    columns = None
    if len(stated) > 1:
        tables, prefixes = split_by_column(table, stated), column_prefixes([*stated])
        columns = {prefixes[name]: (tables[name], own) for name, own in stated.items()}
    description = json.loads(descriptions[metadata_files.SCHEMA_ORG])
    files = sorted({*names, *descriptions} - {PAGE, receipt.NAME, signing.NAME})
    readme = render_readme(table, whole, stated, names).encode()
    page = partial(render, table, whole, description=description, files=files, columns=columns)
    return {"README.txt": readme} | descriptions, page


SHARE = 20.0
"""Parts of half of the narrowest interval that a digit is at most."""
MOST_DIGITS = 12
_HAIR = 1e-6
"""Tolerance of rounding up or down, in steps."""
_RULES: dict[str, tuple[int, Callable[[Floats], Floats]]] = {
    "_low": (0, np.floor),
    "_high": (0, np.ceil),
    **dict.fromkeys(("", "_noisy", "_raw", "_estimate", "_smoothed", "_centre"), (0, np.rint)),
    **dict.fromkeys(("_scale", "_bias", "_error", "_bound95"), (1, np.ceil)),
    **dict.fromkeys(("_noise95", "_expected_error"), (1, np.ceil)),
}
"""Further digits, and the direction, by what the name of a column ends in."""
_SIDES = ("before", "after")
"""Numbers whose difference a comparison has."""


def round_to_intervals(table: pa.Table) -> pa.Table:
    """Return the table with the numbers of each statistic rounded; other columns as they are.

    Examples
    --------
    >>> numbers = {"mean_raw": [19.354], "mean_low": [13.92], "mean_high": [24.78]}
    >>> round_to_intervals(pa.table(numbers)).to_pylist()
    [{'mean_raw': 19.4, 'mean_low': 13.9, 'mean_high': 24.8}]
    """
    for name in table.column_names:
        prefix = name.removesuffix("_low")
        if prefix == name or f"{prefix}_high" not in table.column_names:
            continue
        low, high = numbers_of(table, name), numbers_of(table, f"{prefix}_high")
        # A stranger's numbers may be of any size.
        with np.errstate(all="ignore"):
            widths = high - low
        widths = widths[np.isfinite(widths) & (widths > 0.0)]
        if not widths.size:
            continue
        half = float(widths.min()) / 2.0
        digits = min(MOST_DIGITS, max(0, math.ceil(-math.log10(half / SHARE))))
        rules = {f"{prefix}{ending}": rule for ending, rule in _RULES.items()}
        if prefix == "change":
            rules |= dict.fromkeys(_SIDES, (0, np.rint))
        for column, (more, rule) in rules.items():
            if column in table.column_names:
                table = _rounded(table, column, digits + more, rule)
    return table


def _rounded(table: pa.Table, name: str, digits: int, rule: Callable[[Floats], Floats]) -> pa.Table:
    with np.errstate(all="ignore"):
        steps = numbers_of(table, name) * 10.0**digits
        # A hair of tolerance: 0.3 * 10 is 3.0000000000000004, which is not to become 0.4.
        multiples = np.where(np.abs(steps - np.rint(steps)) < _HAIR, np.rint(steps), rule(steps))
        numbers = np.round(multiples / 10.0**digits, digits) + 0.0
    index = table.column_names.index(name)
    return table.set_column(index, table.schema.field(index), pa.array(numbers, from_pandas=True))
