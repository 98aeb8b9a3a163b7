"""A first line is shown only if it holds names."""

import pytest

from hexveil.records.sources.headers import (
    has_header,
    looks_like_header,
)

ROWS = [["kr7731", "north", "31.5"], ["kr7732", "", "28"]]
IDS = [
    "kr7731",
    "MH12AB1234",
    "bus 7",
    "bus-7",
    "$31",
    "31 km/h",
    "speed=31",
    '{"bus": "x"',
    "N21.1",
]


@pytest.mark.parametrize(
    "names",
    [
        ["bus", "line", "speed"],
        ["VehicleID", "driver name", "PM2.5"],
        ["plate", "time", "speed (km/h)"],
        ["location/coordinates/0", "location/coordinates/1", "x"],
    ],
)
def test_usual_names_above_numbers_are_names(names):
    """Two usual names, other words, and a column of numbers below."""
    assert looks_like_header(names, ROWS)


@pytest.mark.parametrize(
    "header",
    [
        "sensor_id;sensor_type;location;lat;lon;timestamp;P1;durP1;ratioP1;P2;durP2;ratioP2",
        "GPS Time, Device Time, Longitude, Latitude,Term Fuel Trim Bank 1,Altitude (m), G(x)",
        ",vehicle_id,lat,lon,time,speed,note,note",
        "vehicle_id;lat;lon;time;speed;",
    ],
)
def test_numbers_and_gaps_beside_four_usual_names_are_names(header, tmp_path):
    """As loggers, pandas and spreadsheets write them; not where fewer names are usual."""
    mark = ";" if ";" in header else ","
    n_fields = header.count(mark) + 1
    path = tmp_path / "one.csv"
    path.write_text(f"{header}\n{mark.join(['7'] * n_fields)}\n")
    assert has_header(str(path))
    names = header.split(mark)
    assert not looks_like_header([*names, "KA01AB1234"], [["7"] * (n_fields + 1)])
    assert not looks_like_header(["speed", "time", *names[5:]], [["7"] * (n_fields - 3)])


@pytest.mark.parametrize("odd", [*IDS, "", " ", "bus", "Bus"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_one_odd_field_leaves_doubt(odd, at):
    """A field that can be an id or a value, or is there twice, is not shown with the others."""
    names = ["bus", "speed", "time"]
    if odd == names[at]:
        return
    names.insert(at, odd)
    assert not looks_like_header(names, [["kr7731", "31.5", "x", "y"]])


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("line", ["\n", "\r\n"])
@pytest.mark.parametrize("first", ["", "\ufeff"])
def test_a_file_s_first_line_is_compared_with_its_rows(tmp_path, mark, line, first):
    """Whatever the separator, the end of a line, and the mark of its letters."""
    text = line.join(mark.join(row) for row in (["bus", "line", "speed"], *ROWS))
    (tmp_path / "one.csv").write_bytes((first + text).encode())
    assert has_header(str(tmp_path / "one.csv"))
    (tmp_path / "two.csv").write_bytes((first + line.join(text.split(line)[1:])).encode())
    assert not has_header(str(tmp_path / "two.csv"))
