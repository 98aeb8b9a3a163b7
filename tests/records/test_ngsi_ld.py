"""NGSI-LD and IUDX entities: every form of an entity is the same record as a line of CSV."""

import csv
import gzip
import json

import pytest

from examples import some
from hexveil import Cells, InputError, Labels, Select, read
from records.engines import told

COLUMNS = ("plate", "speed", "lon", "lat", "observationDateTime")
NAMES = {"user": "plate", "value": "speed", "location": "location", "time": "observationDateTime"}


def reading(source, **more):
    """Read entities, or the same records as a flat table."""
    arguments = NAMES | {
        "bounds": (0, 65), "cells": Cells(6, "1h", "Asia/Kolkata"), "select": Select(min_users=1),
        "accept_single_records": True, "max_bad_rows": 1, "max_repeats": 1,
    }  # fmt: skip
    return read(source, **(arguments | more))


def prop(value, kind="Property", **more):
    """Return an attribute in the normalised form."""
    return {"type": kind, "value": value, **more}


def point(row):
    """Return the place of a record as GeoJSON."""
    return {"type": "Point", "coordinates": [row["lon"], row["lat"]]}


def head(row):
    """Return what each entity has: its id names the feed's entity, not the vehicle."""
    return {"id": f"urn:ngsi-ld:Vehicle:{row['speed']}", "type": "Vehicle"}


def normalised(row):
    """Return an entity as brokers send it: values with metadata, times with their type."""
    time = {"@type": "DateTime", "@value": row["observationDateTime"]}
    return head(row) | {
        "plate": prop(row["plate"], observedAt=row["observationDateTime"]),
        "speed": prop(row["speed"], unitCode="KMH", observedAt=row["observationDateTime"]),
        "location": prop(point(row), "GeoProperty"),
        "observationDateTime": prop(time),
        "@context": ["https://uri.etsi.org/ngsi-ld/v1/ngsi-ld-core-context.jsonld"],
    }


def related(row):
    """Return an entity in which the vehicle is another entity."""
    return normalised(row) | {"plate": {"type": "Relationship", "object": row["plate"]}}


def simplified(row):
    """Return an entity of keys and values."""
    return head(row) | {
        "plate": row["plate"],
        "speed": row["speed"],
        "location": point(row),
        "observationDateTime": row["observationDateTime"],
    }


def flat(row):
    """Return an entity as exports of an exchange have it, its keys joined by dots."""
    entity = head(row) | {
        "location.type": "Point",
        "location.coordinates": [row["lon"], row["lat"]],
    }
    return entity | {name: row[name] for name in ("plate", "speed", "observationDateTime")}


FORMS = (normalised, related, simplified, flat)


def write(path, rows, form):
    """Write entities as an array or one a line, packed or not, as the file's name says."""
    entities = [form(row) for row in rows]
    lines = "\n".join(map(json.dumps, entities))
    data = (json.dumps(entities, indent=1) if ".json" in path.suffixes else lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def outcome(source, **more):
    """Return what a reading tells, but for the names of its columns, or its refusal."""
    try:
        data = told(reading(source, **more))
    except InputError as error:
        return str(error)
    return {name: value for name, value in data.items() if name != "identity"}


def check_forms(folder, rows, suffix, forms):
    """Assert that entities of each form read as the same records in a flat file do."""
    with (folder / "flat.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    expected = outcome(folder / "flat.csv", location=None, lat="lat", lon="lon")
    for form in forms:
        path = write(folder / f"{form.__name__}{suffix}", rows, form)
        place = "location.coordinates" if form is flat else "location"
        assert outcome(path, location=place) == expected, form.__name__


def city(size=60):
    """Return records of a few buses."""
    return [
        {
            "plate": f"GJ05BX{i % 9}",
            "speed": i % 50,
            "lon": 72.8,
            "lat": 21.1 + i / 1000,
            "observationDateTime": f"2024-01-01T10:{i % 60:02d}:00+05:30",
        }
        for i in range(size)
    ]


@pytest.mark.parametrize("suffix", some([".json", ".ndjson", ".jsonl.gz"], 1))
def test_each_form_is_the_same_data_set_as_a_flat_file(tmp_path, suffix):
    """One run file reads all of them: an attribute's name is that of its value."""
    odd = {"plate": '{"GUID"}', "speed": 7.125, "lat": 95.0}
    check_forms(tmp_path, [*city(), city(1)[0] | odd], suffix, FORMS)


def test_values_may_be_named_by_their_paths_too(tmp_path):
    """The path that `inspect --init` writes means the same as the attribute's name."""
    path = write(tmp_path / "n.json", city(), normalised)
    paths = {
        "user": "plate.value", "value": "speed.value", "location": "location.value.coordinates",
        "time": "speed.observedAt",
    }  # fmt: skip
    by_path, by_name = outcome(path, **paths), outcome(path)
    assert by_path.pop("unit")[1] == "speed.value"
    assert by_name.pop("unit")[1] == "speed"
    assert by_path == by_name


def test_an_object_is_no_id_and_no_label(tmp_path):
    """Where forms are mixed, an attribute with its time would make each record a user."""
    entities = [(normalised if i % 3 else simplified)(row) for i, row in enumerate(city())]
    path = tmp_path / "mixed.json"
    path.write_text(json.dumps([entity | {"load": 5} for entity in entities]))
    found = reading(path, value="load", time=None, cells=Cells(6, None))
    assert found.public.rules["without a user"] == 40
    by_label = {"location": None, "time": None, "cells": Labels("plate")}
    found = reading(path, value="load", user="id", **by_label)
    assert found.public.rules["without a usable place"] == 40
    assert found.occupancy.n_cells == 3


@pytest.mark.parametrize("first", [normalised, simplified])
def test_forms_mixed_in_one_source_are_counted_and_refused(tmp_path, first):
    """Files of two forms are never read as other ids: what is not read is counted."""
    second = simplified if first is normalised else normalised
    write(tmp_path / "1.json", city(30), first)
    write(tmp_path / "2.json", city(30), second)
    listed = [tmp_path / "1.json", tmp_path / "2.json"]
    found = reading(listed)
    assert found.public.rules["without a usable value"] == 30
    assert found.occupancy.n_users == 9
    with pytest.raises(InputError, match="30 of 60 records cannot be used"):
        reading(listed, max_bad_rows=0.1)


def test_an_entity_with_an_unusable_attribute_is_counted(tmp_path):
    """Null, text, an object or a list in place of a value: without a usable value."""
    rows = city(40)
    entities = [normalised(row) for row in rows]
    for number, value in enumerate((None, "fast", {"kmh": 3}, [3, 4], True)):
        entities[number]["speed"]["value"] = value
    entities[5]["location"]["value"] = {"type": "Polygon", "coordinates": [[[72, 21], [73, 21]]]}
    entities[6]["location"] = None
    del entities[7]["speed"]
    (tmp_path / "n.ndjson").write_text("\n".join(map(json.dumps, entities)))
    counts = reading(tmp_path / "n.ndjson").public.rules
    assert (counts["without a usable value"], counts["without a usable place"]) == (6, 2)


def test_a_list_of_instances_is_refused_with_what_to_do(tmp_path):
    """The temporal form has many values in one attribute; one of them can be named."""
    entity = {**normalised(city(1)[0]), "speed": [prop(31), prop(33)]}
    (tmp_path / "t.json").write_text(json.dumps([entity]))
    with pytest.raises(
        InputError, match=r"value: 'speed' holds lists of objects.*'speed\.0\.value'"
    ):
        reading(tmp_path / "t.json")
    assert reading(tmp_path / "t.json", value="speed.0.value").sums.total.tolist() == [31_000]


def test_an_answer_of_an_exchange_is_refused_with_what_to_do(tmp_path):
    """Records inside an envelope are not looked for; the sentence says where they are."""
    answer = {"type": "urn:dx:rs:success", "title": "Success", "results": [simplified(city(1)[0])]}
    (tmp_path / "answer.json").write_text(json.dumps(answer))
    with pytest.raises(InputError, match="record_path"):
        reading(tmp_path / "answer.json")


@pytest.mark.parametrize(
    ("value", "role", "name"),
    [
        ("speed", "user", "speed.value"),
        ("speed.value", "time", "speed"),
        ("location.value", "location", "location"),
        ("location.value.coordinates.0", "location", "location"),
    ],
)
def test_a_value_under_another_name_of_its_field_is_refused(value, role, name, tmp_path):
    """A value that is public in another role would be protected by no noise."""
    with pytest.raises(InputError, match="cannot be the same column"):
        reading(write(tmp_path / "n.json", city(), normalised), **{"value": value, role: name})
