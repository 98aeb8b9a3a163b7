"""Records that are elements of lists inside JSON documents, as documents of their own."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hexveil.records.duckdb.expressions import literal

DOCUMENT = "document"
"""The one column of a relation of JSON documents."""


def unnest_records(documents: str, steps: Sequence[str]) -> str:
    """Return the query of the records inside documents.

    Each key leads to a list of objects, or to one object. Fields beside it become fields of each
    record, unless the record has them itself. A document without the key stays one row, a null,
    so that it is counted as unparsable.

    Parameters
    ----------
    documents : str
        Query of whole documents, in the column `DOCUMENT`.
    steps : sequence of str
        Keys from a document to its records.
    """
    for key in steps:
        documents = _follow(documents, key)
    return documents


def _follow(documents: str, key: str) -> str:
    path = "$." + json.dumps(key, ensure_ascii=False)
    # RFC 7396: a null in a patch removes the key. The list leaves its document before the elements
    # are laid out, for else each of them would carry all others.
    parent = f"json_merge_patch({DOCUMENT}, {literal(json.dumps({key: None}, ensure_ascii=False))})"
    elements = (
        f"CASE json_type({DOCUMENT}, {literal(path)}) "
        f"WHEN 'ARRAY' THEN json_extract({DOCUMENT}, {literal(path + '[*]')}) "
        f"WHEN 'OBJECT' THEN [json_extract({DOCUMENT}, {literal(path)})] "
        "ELSE [CAST(NULL AS JSON)] END"
    )
    return (
        f"SELECT CASE WHEN json_type(element) = 'OBJECT' "
        f"THEN json_merge_patch(parent, element) END AS {DOCUMENT} "
        f"FROM (SELECT {parent} AS parent, unnest({elements}) AS element FROM ({documents}))"
    )
