"""A first line is shown only if it holds names."""

import pytest

from hexveil import InputError
from records.printed import printed

ROWS = [["kr7731", "north", "31.5"], ["kr7732", "", "28"]]
IDS = [
    "kr7731", "MH12AB1234", "bus 7", "bus-7", "$31", "31 km/h", "speed=31", '{"bus": "x"', "N21.1",
]  # fmt: skip


def shown(path, names, rows, mark=","):
    """Write a file; return whether `inspect --init` shows its first line."""
    path.write_text("\n".join(mark.join(row) for row in (names, *rows)) + "\n")
    try:
        printed("inspect", path, "--init")
    except InputError as refused:
        said = str(refused)
    else:
        return True
    assert not any(text in said for text in (*IDS, "kr7732", "KA01"))
    return False


@pytest.mark.parametrize(
    "header",
    [
        "VehicleID,driver name,PM2.5",
        "plate,time,speed (km/h)",
        "location/coordinates/0,location/coordinates/1,x",
    ],
)
def test_usual_names_above_numbers_are_names(header, tmp_path):
    """Two usual names, other words, and a column of numbers below."""
    assert shown(tmp_path / "one.csv", header.split(","), ROWS)


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
    names, path = header.split(mark), tmp_path / "one.csv"
    assert shown(path, names, [["7"] * len(names)], mark)
    for others in ([*names, "KA01AB1234"], ["speed", "time", *names[5:]]):
        assert not shown(path, others, [["7"] * len(others)], mark)


@pytest.mark.parametrize("odd", [*IDS, "nan", "", " ", "bus", "Bus"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_one_odd_field_leaves_doubt(odd, at, tmp_path):
    """A field that can be an id or a value, or is there twice, is not shown with the others."""
    names = ["bus", "speed", "time"]
    if odd == names[at]:
        return
    names.insert(at, odd)
    assert not shown(tmp_path / "one.csv", names, [["kr7731", "31.5", "x", "y"]])


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("line", ["\n", "\r\n"])
@pytest.mark.parametrize("first", ["", "\ufeff"])
def test_a_file_s_first_line_is_compared_with_its_rows(tmp_path, mark, line, first):
    """Whatever the separator, the end of a line, and the mark of its letters."""
    rows = [mark.join(row) for row in (["bus", "line", "speed"], *ROWS)]
    (tmp_path / "one.csv").write_bytes((first + line.join(rows)).encode())
    assert 'user = "bus"' in printed("inspect", tmp_path / "one.csv", "--init")
    (tmp_path / "two.csv").write_bytes((first + line.join(rows[1:])).encode())
    with pytest.raises(InputError, match="may be a record"):
        printed("inspect", tmp_path / "two.csv", "--init")
    (tmp_path / "three.csv").write_bytes((first + rows[0] + line).encode())
    with pytest.raises(InputError, match=r"three\.csv. has no rows below its first line"):
        printed("inspect", tmp_path / "three.csv", "--init")
