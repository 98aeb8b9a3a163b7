"""Records whose ids and values occur nowhere else, and the search for them in whatever was left.

A canary is looked for as text (ids by their stem, numbers by nine digits), in other encodings
(UTF-16, base64, hex), and as bytes (doubles and whole numbers of 64 bits, little-endian): values,
sums and means of each cell and of each user in it.
"""

import base64
import gzip
import io
import json
import re
import struct
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

STEM = "zebraQv7Kx9"
"""Begins every id."""
FRACTION = 0.41592653
"""Ends every value."""
QUANTUM = 10**-6
PLACES = ((21.10, 72.75), (21.20, 72.80), (21.25, 72.85))
N_USERS = 60
DAY = "2022-01-01"


def rows(n_users=N_USERS):
    """Return one record of each bus at each place."""
    return [
        {
            "bus": f"{STEM}-{user:03d}",
            "lat": lat,
            "lon": lon,
            "time": f"{DAY}T{10 + number}:{user % 60:02d}:00+05:30",
            "speed": 11.0 * number + user % 31 + FRACTION,
            "line": f"line {number}",
        }
        for number, (lat, lon) in enumerate(PLACES)
        for user in range(n_users)
    ]


def table(n_users=N_USERS):
    """Return the same as an Arrow table."""
    return pa.Table.from_pylist(rows(n_users))


def write(path, records):
    """Write records in the format that the name of the file says."""
    if path.suffix == ".parquet":
        pq.write_table(records, path)
    elif path.suffix == ".csv":
        pyarrow.csv.write_csv(records, path)
    elif path.suffix == ".gz":
        text = io.BytesIO()
        pyarrow.csv.write_csv(records, text)
        path.write_bytes(gzip.compress(text.getvalue()))
    elif path.suffix == ".json":
        path.write_text(json.dumps(records.to_pylist()))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in records.to_pylist()))
    return path


def _secret_numbers():
    """Return values, and sums and means over the users of a place, of whole records."""
    by_place = [[row["speed"] for row in rows() if row["lat"] == lat] for lat, _ in PLACES]
    values = sorted({value for one in by_place for value in one})
    sums = [sum(one) for one in by_place]
    squares = [sum(v * v for v in one) for one in by_place]
    means = [sum(one) / len(one) for one in by_place]
    spread = [float(np.var(one)) for one in by_place]
    return values, [*sums, *squares, *means, *spread]


VALUES, DERIVED = _secret_numbers()
WHOLE = [round(number / QUANTUM) for number in (*VALUES, *DERIVED)]
"""As whole numbers of the lattice, which begins at 0."""

_TEXTS = {
    STEM,
    f"{FRACTION:.8f}"[1:],
    *(f"{number:.9g}"[:10] for number in DERIVED),
    *(str(number) for number in WHOLE),
}
_STEM_64 = {
    base64.b64encode(b"x" * shift + STEM.encode())[2 if shift == 1 else 4 * (shift > 1) :][:12]
    for shift in range(3)
}
_BYTES = {
    STEM.encode("utf-16-le"),
    STEM.encode("utf-16-be"),
    STEM.encode().hex().encode(),
    STEM.encode().hex().upper().encode(),
    *_STEM_64,
    *(struct.pack("<d", number) for number in (*VALUES, *DERIVED)),
    *(struct.pack("<q", number) for number in WHOLE),
}
_LETTERS = re.compile("|".join(sorted(map(re.escape, _TEXTS))))
_OCTETS = re.compile(
    b"|".join(sorted({re.escape(one) for one in _BYTES} | {re.escape(t.encode()) for t in _TEXTS}))
)
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{24,}={0,2}")


def in_text(text):
    """Return the first canary in a text, or None."""
    found = _LETTERS.search(text)
    return found and found[0]


def in_bytes(content, depth=3):
    """Return the first canary in a file's content, packed parts unpacked, or None."""
    found = _OCTETS.search(content)
    if found:
        return found[0]
    return next(filter(None, (in_bytes(one, depth - 1) for one in _inside(content, depth))), None)


def _inside(content, depth):
    """Yield what is packed in a content: gzip, zlib, a Parquet table, base64."""
    if not depth:
        return
    for window in (31, 15):
        try:
            yield zlib.decompressobj(window).decompress(content)
        except zlib.error:
            continue
    if content[:4] == content[-4:] == b"PAR1":
        yield from _columns(pq.read_table(pa.BufferReader(content)))
    for chunk in _BASE64.findall(content):
        whole = chunk[: len(chunk) // 4 * 4]
        yield base64.b64decode(whole)


def _columns(found):
    yield repr(found.schema.metadata).encode()
    for field, column in zip(found.schema, found.columns, strict=True):
        yield repr((field.name, field.metadata)).encode()
        listed = column.to_pylist()
        yield repr(listed).encode()
        numbers = [one for one in listed if isinstance(one, (int, float))]
        yield b"".join(struct.pack("<d", float(one)) for one in numbers)


def in_error(error, find=in_text):
    """Return the first canary in an error and in all that it hangs on, or None.

    `find` looks for canaries in a text. Texts, arguments and attributes count, not the variables
    of its frames: those are this very program's memory.
    """
    seen, waiting = set(), [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        found = find(str(one)) or find(repr(one.args)) or find(repr(vars(one)))
        if found:
            return found
        waiting += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
    return None


def in_folder(folder, leave=()):
    """Return the files below a folder that hold a canary or have one in their name."""
    files = (path for path in sorted(folder.rglob("*")) if path not in leave)
    return [
        str(path.relative_to(folder))
        for path in files
        if in_text(str(path.relative_to(folder))) or (path.is_file() and _in_file(path))
    ]


def _in_file(path):
    return in_bytes(path.read_bytes())
