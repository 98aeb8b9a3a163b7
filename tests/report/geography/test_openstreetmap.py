"""OpenStreetMap extracts: an invented one is read, drawn, credited, and names hexagons."""

import json
import re
import struct
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import h3
import pytest

from hexveil.base.errors import InputError
from hexveil.report import read_context, render
from hexveil.report.context import named_lines, named_positions
from hexveil.report.geography import openstreetmap

pytest.importorskip("pyogrio")
PLAIN, LENGTH = 0, 2
"""Wire types of Protocol Buffers: a whole number, and bytes after their length."""
EXTRACT = """<?xml version="1.0" encoding="UTF-8"?>
<osm version="0.6" generator="invented">
  <node id="1" lat="21.16" lon="72.80"/>
  <node id="2" lat="21.17" lon="72.83"/>
  <node id="3" lat="21.18" lon="72.86"/>
  <node id="4" lat="21.172" lon="72.815">
    <tag k="place" v="suburb"/><tag k="name" v="&lt;i&gt;Udhna"/></node>
  <node id="5" lat="21.19" lon="72.84"/>
  <node id="6" lat="21.15" lon="72.82"><tag k="place" v="city"/><tag k="name" v="Surat"/></node>
  <node id="7" lat="21.20" lon="72.84"><tag k="amenity" v="cafe"/><tag k="name" v="Cafe"/></node>
  <way id="9"><nd ref="2"/><nd ref="5"/>
    <tag k="highway" v="residential"/><tag k="name" v="Short Lane"/></way>
  <way id="10"><nd ref="1"/><nd ref="2"/><nd ref="3"/>
    <tag k="highway" v="primary"/><tag k="name" v="Ring Road"/></way>
  <way id="11"><nd ref="2"/><nd ref="5"/>
    <tag k="highway" v="footway"/><tag k="name" v="A path"/></way>
  <way id="12"><nd ref="5"/><nd ref="3"/>
    <tag k="waterway" v="river"/><tag k="name" v="Tapi"/></way>
</osm>
"""


def varint(number: int) -> bytes:
    """Return a whole number as Protocol Buffers write it."""
    parts = []
    while number >= 128:
        parts.append(number % 128 + 128)
        number //= 128
    return bytes([*parts, number])


def signed(number: int) -> int:
    """Return a signed number as an unsigned one, small if it is (zigzag)."""
    return 2 * number if number >= 0 else -2 * number - 1


def field(key: int, content: bytes | int) -> bytes:
    """Return a field of a message."""
    if isinstance(content, int):
        return varint(8 * key + PLAIN) + varint(content)
    return varint(8 * key + LENGTH) + varint(len(content)) + content


def packed_extract(xml: str) -> bytes:
    """Return an extract as PBF, not compressed (wiki.openstreetmap.org/wiki/PBF_Format)."""
    root = ET.fromstring(xml)  # noqa: S314  our own text
    texts = ["", *sorted({tag.get(k) for tag in root.iter("tag") for k in "kv"})]

    def tags(one: ET.Element) -> bytes:
        found = [[texts.index(tag.get(k)) for tag in one.iter("tag")] for k in "kv"]
        # Fields without content are left out.
        return b"".join(
            field(key, b"".join(map(varint, part))) for key, part in enumerate(found, 2) if part
        )

    def node(one: ET.Element) -> bytes:
        places = [
            (key, round(1e7 * float(one.get(name)))) for key, name in ((8, "lat"), (9, "lon"))
        ]
        numbers = b"".join(field(key, signed(place)) for key, place in places)
        return field(1, field(1, signed(int(one.get("id")))) + tags(one) + numbers)

    def way(one: ET.Element) -> bytes:
        refs = [0, *(int(ref.get("ref")) for ref in one.iter("nd"))]
        moves = b"".join(varint(signed(b - a)) for a, b in pairwise(refs))
        return field(3, field(1, int(one.get("id"))) + tags(one) + field(8, moves))

    groups = [node(one) for one in root.iter("node")], [way(one) for one in root.iter("way")]
    blocks = {
        "OSMHeader": field(4, b"OsmSchema-V0.6"),
        "OSMData": field(1, b"".join(field(1, text.encode()) for text in texts))
        + b"".join(field(2, b"".join(group)) for group in groups),
    }
    file = b""
    for kind, block in blocks.items():
        blob = field(1, block)
        header = field(1, kind.encode()) + field(3, len(blob))
        file += struct.pack(">I", len(header)) + header + blob
    return file


@pytest.fixture(scope="module", params=[".osm", ".osm.pbf"])
def extract(tmp_path_factory, request) -> Path:
    """Return the file of an invented extract, as XML and packed."""
    file = tmp_path_factory.mktemp("osm") / f"clip{request.param}"
    if request.param == ".osm":
        file.write_text(EXTRACT, encoding="utf-8")
    else:
        file.write_bytes(packed_extract(EXTRACT))
    return file


@pytest.fixture(scope="module")
def context(extract):
    """Return what is read of it."""
    return read_context(extract)


def test_roads_and_settlements_are_read(context):
    """Main roads come first, paths and cafes not at all; rivers are drawn and name no street."""
    assert [name for name, _, is_line in named_positions(context) if not is_line] == [
        "Surat",
        "<i>Udhna",
    ]
    assert [name for name, _ in named_lines(context)] == ["Ring Road", "Short Lane"]
    lines = [one for one in context["features"] if one["geometry"]["type"] == "LineString"]
    assert len(lines) == 3
    assert lines[0]["geometry"]["coordinates"] == [[72.80, 21.16], [72.83, 21.17], [72.86, 21.18]]


def test_hexagons_lie_on_streets(city, context):
    """Each hexagon that the road crosses is on it, by words that are escaped, with credit."""
    html = render(city.table, city.manifest, context=context, geography=False)
    data = json.loads(re.search(r'id="data">(.*?)</script>', html)[1])
    words = dict(zip(data["names"], data["map"]["words"], strict=True))
    along = [h3.latlng_to_cell(21.16 + 0.02 * k / 50, 72.80 + 0.06 * k / 50, 8) for k in range(51)]
    named = {"Surat", "<i>Udhna"}
    assert all(
        "on Ring Road" in words[name] or words[name] in named for name in {*along} & {*words}
    )
    on_road = [name for name, text in words.items() if text.endswith(", on Ring Road")]
    assert 3 <= len(on_road) <= len({*along})
    assert any(text.endswith(", on Short Lane") for text in words.values())
    assert "<i>Udhna" not in html
    assert openstreetmap.ATTRIBUTION in html
    assert "lines and names of the publisher" not in html


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("hello", "is not an OpenStreetMap extract"),
        ("", "is not an OpenStreetMap extract"),
        ('<?xml version="1.0"?><osm version="0.6"></osm>', "holds no line"),
    ],
)
@pytest.mark.parametrize("ending", [".osm", ".osm.pbf"])
def test_other_files_are_one_sentence(tmp_path, content, sentence, ending):
    """A file that is no extract, or holds nothing, is refused in a sentence."""
    file = tmp_path / f"clip{ending}"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=sentence):
        read_context(file)


def test_the_extra_and_the_size_are_checked_first(extract, monkeypatch):
    """Without GDAL the sentence names the extra; a country is refused before it is read."""
    with monkeypatch.context() as changed:
        changed.setattr("hexveil.base.optional_packages.is_installed", lambda _: False)
        with pytest.raises(InputError, match=r"pip install \"hexveil\[tiles\]\""):
            read_context(extract)
    monkeypatch.setattr(openstreetmap, "MAX_BYTES", 10)
    with pytest.raises(InputError, match="at most 0 MB"):
        read_context(extract)
