"""Folder names of data sets: injective, readable and valid on every file system.

A plain name (lower-case ASCII letters, digits, dots, underscores and hyphens) is its own folder
name. Any other name becomes a readable slug, two hyphens and a digest of the whole name, because
file systems differ in allowed characters, case, Unicode normalisation and length.
"""

import hashlib
import re
import unicodedata

_PLAIN = re.compile(r"[a-z0-9_]([a-z0-9._-]{0,78}[a-z0-9_])?")
_DIGESTED = re.compile(r".*--[0-9a-f]{20}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
"""Names that Windows keeps for devices, whatever their ending."""
_READABLE = 60
_NO_NAME = "dataset"


def folder_name(dataset: str) -> str:
    """Return the folder name of a data set: at most 82 lower-case ASCII characters.

    Examples
    --------
    >>> folder_name("surat-buses")
    'surat-buses'
    >>> folder_name("a/b"), folder_name("Kraków")
    ('a-b--c14cddc033f64b9dea80', 'krakow--e9a2167b94f5de9e5283')
    >>> folder_name("Автобусы")
    'dataset--f18d2caddf1d5376e373'
    """
    # A plain name that looks like a digested one could be the folder of another data set.
    is_reserved = _DIGESTED.fullmatch(dataset) or _RESERVED.fullmatch(dataset)
    if _PLAIN.fullmatch(dataset) and not is_reserved:
        return dataset
    # Half characters are names too: "surrogatepass" gives them bytes of their own.
    digest = hashlib.sha256(dataset.encode("utf-8", "surrogatepass")).hexdigest()[:20]
    return f"{_readable(dataset)}--{digest}"


def _readable(dataset: str) -> str:
    """Return a slug of a name, in ASCII."""
    letters = unicodedata.normalize("NFKD", dataset).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9_]+", "-", letters)[:_READABLE].strip("-") or _NO_NAME
