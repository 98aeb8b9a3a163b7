"""Sources of any shape under any name: formats, separators, quoting, headers, letters, packing.

A shape is drawn by its number. Its records have ids, values, places and times that occur in no
other text: six digits or letters each, which are looked for in whatever a call lets out.
"""

import gzip
import io
import json
import random
import re
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = ("bus", "speed", "lat", "lon", "time", "line")
LETTERS = "qxzkwvj"
N_RECORDS = 6

IDS = {
    "letters": lambda token: f"Zq{token}",
    "plate": lambda token: f"MH12AB{token}",
    "number": lambda token: token,
    "usual word": lambda token: f"bus {token}",
    "name and number": lambda token: f"vehicle_{token}",
    "Cyrillic": lambda token: f"Автобус-{token}",
    "Devanagari": lambda token: f"बस{token}",
    "a separator": lambda token: f"a;{token},b",
    "a quote": lambda token: f'q"{token}',
    "like a column": lambda token: f"speed{token}",
}
"""How an id is made of its token."""


@dataclass(frozen=True)
class Secrets:
    """What must not leave: records as text, and the tokens in them."""

    records: tuple[dict, ...]
    tokens: tuple[str, ...]

    def seen(self, text):
        """Return the first token in a text, or None; escaped letters count."""
        plain = re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), text)
        return next((token for token in self.tokens if token in plain), None)


def secrets(chance, kind):
    """Return records with tokens of their own."""
    records, tokens = [], []

    def token():
        tokens.append(str(chance.randrange(100_000, 1_000_000)))
        return tokens[-1]

    def word():
        tokens.append("".join(chance.choice(LETTERS) for _ in range(8)))
        return tokens[-1]

    for _ in range(N_RECORDS):
        name = word() if kind == "letters" else token()
        records.append(
            {
                "bus": IDS[kind](name),
                "speed": f"{chance.randrange(10, 60)}.{token()}",
                "lat": f"21.{token()}",
                "lon": f"72.{token()}",
                "time": f"2024-01-01T{chance.randrange(10, 20)}:00:00.{token()}+05:30",
                "line": chance.choice(("north", "south")),
            }
        )
    return Secrets(tuple(records), tuple(tokens))


def separated(mark, quote=""):
    """Return what writes records with a separator, quoted or not."""

    def write(records, header):
        lines = [header, *(record.values() for record in records)] if header else records
        lines = [one.values() if isinstance(one, dict) else one for one in lines]
        return "\n".join(mark.join(f"{quote}{field}{quote}" for field in line) for line in lines)

    return write


def lines_of(make):
    """Return what writes a line per record, whatever header is asked for."""
    return lambda records, _: "\n".join(map(make, records))


def whole(make):
    """Return what writes all records at once."""
    return lambda records, _: make(records)


def as_rows(records):
    return [{**record, "speed": float(record["speed"])} for record in records]


def keyed(records):
    return {record["bus"]: {"speed": record["speed"], "time": record["time"]} for record in records}


def geojson(records):
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": [float(one["lon"]), float(one["lat"])]},
            "properties": {"bus": one["bus"], "speed": one["speed"]},
        }
        for one in records
    ]
    return json.dumps({"type": "FeatureCollection", "features": features})


def nmea(one):
    return f"$GPRMC,{one['time']},A,{one['lat']},N,{one['lon']},E,{one['speed']},{one['bus']}*6A"


def pivoted(records):
    first = ",".join(["time", *(one["bus"] for one in records)])
    return f"{first}\n" + "\n".join(",".join([one["time"], *[one["speed"]] * 6]) for one in records)


def sums(records, _):
    rows = "\n".join(f"{one['line']},{one['bus']},1,{one['speed']}" for one in records)
    return f"cell,user,n,sum\n{rows}"


STYLES = {
    **{f"separated by {mark!r}": separated(mark) for mark in (",", ";", "\t", "|", "~", " ", ":")},
    "quoted": separated(",", '"'),
    "quoted by '": separated(",", "'"),
    "spaces after commas": separated(", "),
    "fixed width": lines_of(lambda one: "".join(f"{field:<36}" for field in one.values())),
    "key=value": lines_of(lambda one: ",".join(f"{k}={v}" for k, v in one.items())),
    "key: value": lines_of(lambda one: "; ".join(f"{k}: {v}" for k, v in one.items())),
    "key, value": lines_of(lambda one: ",".join(f"{k},{v}" for k, v in one.items())),
    "currency": lines_of(lambda one: f"{one['bus']},${one['speed']},{one['line']}"),
    "a unit": lines_of(lambda one: f"{one['bus']};{one['speed']} km/h;{one['line']}"),
    "decimal commas": lines_of(
        lambda one: ";".join(field.replace(".", ",") for field in one.values())
    ),
    "words alone": lines_of(lambda one: f"{one['bus']},{one['line']},bus,fast"),
    "NMEA": lines_of(nmea),
    "a log": lines_of(lambda one: f"{one['time']} INFO {one['bus']} speed={one['speed']}"),
    "XML": lines_of(lambda one: f'<bus id="{one["bus"]}" speed="{one["speed"]}"/>'),
    "HTML": lines_of(lambda one: f"<td>{one['bus']}</td>,<td>{one['speed']}</td>"),
    "SQL": lines_of(lambda one: f"INSERT INTO t VALUES ('{one['bus']}', {one['speed']});"),
    "INI": lines_of(lambda one: f"[{one['bus']}]\nspeed = {one['speed']}\nlat = {one['lat']}"),
    "INI twice": lines_of(lambda one: f"[{one['bus']}]\nx = 1\n[{one['bus']}]\ny = 1"),
    "TOML": lines_of(lambda one: f"{json.dumps(one['bus'])} = {one['speed']}"),
    "YAML": lines_of(lambda one: f"- bus: {one['bus']}\n  speed: {one['speed']}"),
    "NDJSON": lines_of(json.dumps),
    "NDJSON of numbers": lambda records, _: "\n".join(map(json.dumps, as_rows(records))),
    "NDJSON, plain letters": lines_of(lambda one: json.dumps(one, ensure_ascii=False)),
    "JSON": whole(lambda records: json.dumps(as_rows(records))),
    "JSON, indented": whole(lambda records: json.dumps(as_rows(records), indent=1)),
    "JSON by id": whole(lambda records: json.dumps(keyed(records))),
    "JSON by id, in a list": whole(lambda records: json.dumps([keyed(records)])),
    "JSON by id, inside": whole(lambda records: json.dumps([{"buses": keyed(records)}])),
    "JSON of lists": whole(lambda records: json.dumps([list(one.values()) for one in records])),
    "JSON in columns": whole(
        lambda records: json.dumps({k: [one[k] for one in records] for k in COLUMNS})
    ),
    "JSON of texts": whole(lambda records: json.dumps([json.dumps(one) for one in records])),
    "GeoJSON": whole(geojson),
    "a column per bus": whole(pivoted),
    "sums": sums,
}
"""What stands in a file, whatever its name says."""

HEADERS = {
    "right": COLUMNS,
    "none": (),
    "other names": ("vehicle", "velocity", "y", "x", "when", "route"),
    "one misspelt": ("bus", "sped", "lat", "lon", "time", "line"),
    "one twice": ("bus", "speed", "lat", "lon", "time", "bus"),
    "twins": ("bus", "speed", "lat", "lon", "time", "BUS"),
    "one empty": ("bus", "speed", "lat", "lon", "time", ""),
    "too short": ("bus", "speed"),
}
ENDINGS = (".csv", ".tsv", ".csv.gz", ".json", ".jsonl", ".ndjson", ".json.gz", ".parquet", ".txt")
CODES = ("utf-8", "utf-8-sig", "utf-16", "utf-8 and a broken letter")
DAMAGE = ("none", "cut off", "a line cut", "not packed")
FORMS = ("text", "text", "text", "text", "text", "parquet", "memory", "folders by id", "two files")

NAMED = {
    "right": {"user": "bus", "value": "speed", "lat": "lat", "lon": "lon", "time": "time"},
    "value misspelt": {"user": "bus", "value": "sped", "lat": "lat", "lon": "lon", "time": "time"},
    "user misspelt": {"user": "buss", "value": "speed", "lat": "lat", "lon": "lon"},
    "one right": {"user": "bus", "value": "velocity", "lat": "y", "lon": "x"},
    "others": {"user": "vehicle_id", "value": "velocity", "location": "place", "time": "ts"},
    "like ids": {"user": "Zq", "value": "MH12AB", "location": "vehicle", "time": "Автобус"},
    "inside": {"user": "data.bus", "value": "buses.speed", "lat": "x.lat", "lon": "x.lon"},
    "letters and numbers": {"user": "1", "value": "31", "lat": "21.1", "lon": "72.1"},
}
"""Columns that are configured."""


@dataclass(frozen=True)
class Shape:
    """One source, and how it is asked for."""

    number: int
    form: str
    style: str
    header: str
    ending: str
    code: str
    damage: str
    ids: str
    named: str

    @classmethod
    def of(cls, number):
        """Return the shape of a number: every style with every ending, and the rest by chance."""
        chance = random.Random(f"shape {number}")  # noqa: S311  a repeatable attack
        styles, ids = list(STYLES), list(IDS)
        return cls(
            number,
            chance.choice(FORMS),
            styles[number % len(styles)],
            chance.choice(list(HEADERS)),
            chance.choice(ENDINGS),
            chance.choice((*["utf-8"] * 3, *CODES)),
            chance.choice((*["none"] * 4, *DAMAGE)),
            ids[number // 3 % len(ids)],
            chance.choice(list(NAMED)),
        )

    def make(self, folder):
        """Write the source into a folder; return what `read` takes, and what must not leave."""
        chance = random.Random(f"records {self.number}")  # noqa: S311
        secret = secrets(chance, self.ids)
        table = pa.Table.from_pylist(as_rows(secret.records))
        if self.form == "memory":
            header = HEADERS[self.header] or COLUMNS
            return _in_memory(table.select(COLUMNS[: len(header)]), header, chance), secret
        if self.form == "folders by id":
            return _by_id(folder, table), secret
        names = [f"shape{k}{self.ending}" for k in range(1 + (self.form == "two files"))]
        for name, header in zip(names, (HEADERS[self.header], COLUMNS), strict=False):
            (folder / name).write_bytes(self._content(secret.records, table, header, name))
        return (names[0] if len(names) == 1 else "."), secret

    def _content(self, records, table, header, name):
        if self.form == "parquet":
            sink = io.BytesIO()
            pq.write_table(table, sink)
            content = sink.getvalue()
        else:
            text = STYLES[self.style](records, header)
            code, _, broken = self.code.partition(" and ")
            content = text.encode(code)
            if broken:
                content = content[:9] + b"\xff" + content[9:]
        if self.damage == "cut off":
            content = content[: len(content) * 2 // 3]
        elif self.damage == "a line cut":
            content = content.replace(b"\n", b"", 1)
        packed = name.endswith(".gz") and self.damage != "not packed"
        return gzip.compress(content, mtime=0) if packed else content


def _in_memory(table, names, chance):
    """Return a table of one of the libraries; names that engines confuse are there, too."""
    table = table.rename_columns(list(names))
    kind = chance.choice(("arrow", "pandas", "polars"))
    if kind == "arrow" or len(set(names)) < len(names):
        return table
    if kind == "pandas":
        return table.to_pandas()
    import polars as pl  # noqa: PLC0415  an extra

    return pl.from_arrow(table)


def _by_id(folder, table):
    """Write a folder per vehicle, as partitioned tables have them; some files have no rows."""
    for number, (start, end) in enumerate(pairwise(range(len(table) + 1))):
        name = table["bus"][start].as_py()
        place = folder / "days" / f"bus={name.replace('/', '')}"
        place.mkdir(parents=True)
        own = table.slice(start, end - start).drop_columns(["bus"])
        own = own.drop_columns(["line"]) if number == 3 else own
        pq.write_table(own, place / "part.parquet")
    return "days"
