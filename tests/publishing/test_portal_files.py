"""Descriptions for portals, checked by the validator of each standard, without a network.

The shapes of DCAT-AP come in no package: those below state its mandatory properties and their
kinds. With HEXVEIL_DCAT_AP_SHAPES, a folder with the official `.ttl` files, these count as well.
"""

import importlib.util
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import hexveil as hv
from publishing import archives
from publishing.releases import records, release_of
from publishing.setting import released
from publishing.test_catalogue_facts import HOLDER as FACTS

# rdflib's own parser of JSON-LD uses what rdflib deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning")
HOLDER = replace(
    FACTS, theme=("TRAN", "REGI"), base_url="https://data.example.org/maps",
    temporal=("2023-11-14", "2023-11-15"),
)  # fmt: skip
ADDRESS = "https://portal.example.org/map/"
SHAPES = """
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix dcat: <http://www.w3.org/ns/dcat#> .
@prefix dct: <http://purl.org/dc/terms/> .
@prefix foaf: <http://xmlns.com/foaf/0.1/> .
@prefix vcard: <http://www.w3.org/2006/vcard/ns#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
[] a sh:NodeShape ; sh:targetClass dcat:Dataset ;
   sh:property [ sh:path dct:title ; sh:minCount 1 ; sh:nodeKind sh:Literal ] ;
   sh:property [ sh:path dct:description ; sh:minCount 1 ; sh:nodeKind sh:Literal ] ;
   sh:property [ sh:path dct:publisher ; sh:maxCount 1 ; sh:class foaf:Agent ] ;
   sh:property [ sh:path dcat:contactPoint ; sh:class vcard:Kind ] ;
   sh:property [ sh:path dct:spatial ; sh:class dct:Location ] ;
   sh:property [ sh:path dct:temporal ; sh:class dct:PeriodOfTime ] ;
   sh:property [ sh:path dct:provenance ; sh:class dct:ProvenanceStatement ] ;
   sh:property [ sh:path dcat:distribution ; sh:class dcat:Distribution ] .
[] a sh:NodeShape ; sh:targetClass dcat:Distribution ;
   sh:property [ sh:path dcat:accessURL ; sh:minCount 1 ; sh:nodeKind sh:IRI ] ;
   sh:property [ sh:path dct:license ; sh:maxCount 1 ; sh:class dct:LicenseDocument ] ;
   sh:property [ sh:path dcat:mediaType ; sh:maxCount 1 ; sh:class dct:MediaType ] .
[] a sh:NodeShape ; sh:targetClass foaf:Agent ;
   sh:property [ sh:path foaf:name ; sh:minCount 1 ; sh:nodeKind sh:Literal ] .
[] a sh:NodeShape ; sh:targetClass dcat:Catalog ;
   sh:property [ sh:path dct:title ; sh:minCount 1 ; sh:nodeKind sh:Literal ] ;
   sh:property [ sh:path dct:description ; sh:minCount 1 ; sh:nodeKind sh:Literal ] ;
   sh:property [ sh:path dct:publisher ; sh:minCount 1 ; sh:maxCount 1 ; sh:class foaf:Agent ] ;
   sh:property [ sh:path dcat:dataset ; sh:class dcat:Dataset ] .
"""


@pytest.fixture(scope="module")
def portal_tools():
    """Skip where a validator is not installed; fail where nothing may be skipped."""
    needed = ("frictionless", "pyshacl", "pystac", "rdflib")
    if missing := [name for name in needed if importlib.util.find_spec(name) is None]:
        reason = f"{missing[0]} is not installed: pip install -r requirements/portal.lock"
        (pytest.fail if os.environ.get("HEXVEIL_NO_SKIP") else pytest.skip)(reason)


@pytest.fixture(scope="module", params=["map", "bare map", "pooled", "labels", "columns"])
def folder(request, portal_tools, tmp_path_factory):
    """Return a folder of each kind of release, with the holder's facts and without any."""
    place = tmp_path_factory.mktemp("portal") / "map"
    release = release_of(place, "means", mapped=request.param != "labels")
    if request.param in ("pooled", "columns"):
        release = {"pooled": pooled, "columns": several}[request.param]()
    facts = None if request.param == "bare map" else HOLDER
    return release.write(place, catalogue=facts)


@pytest.fixture(scope="module")
def archive(portal_tools, tmp_path_factory):
    """Return the folder of an archive with two days."""
    home = tmp_path_factory.mktemp("archive")
    holder = HOLDER.stated()
    run = archives.site(home, holder={name: holder[name] for name in holder if name != "temporal"})
    archives.published(run, *archives.DAYS[1:])
    return home / "maps"


def pooled():
    """Return a release of hexagons in hours pooled over all days, up to midnight."""
    dataset = hv.read(
        records(), user="bus", value="speed", time="time", bounds=(0, 60), value_unit="km/h",
        lat="lat", lon="lon", repeats="keep", cells=hv.Cells(7, "1h", "Etc/GMT-1", "pooled"),
    )  # fmt: skip
    return released(dataset, epsilon=2)


def several():
    """Return a release of two value columns, with empty numbers where one has no such cell."""
    table = records()
    delay = pa.array(table["speed"].to_pylist(), mask=np.array(table["speed"]) < 11)
    both = hv.read(
        table.append_column("delay", delay), user="bus", value=("speed", "delay"), time="time",
        bounds=(0, 60), lat="lat", lon="lon", repeats="keep", max_bad_rows=0.5,
        cells=hv.Cells(7, "1h", "Etc/GMT-1"), select=hv.Select(min_users=14),
    )  # fmt: skip
    book = hv.Ledger("memory://", dataset="buses", budget=100)
    made = hv.release(both, hv.plan(both, epsilon=4, advise=False), ledger=book, accept_noise=True)
    assert made.table["delay_mean_raw"].null_count > 0
    return made


def graph_of(file, address=ADDRESS):
    """Return the RDF graph of a JSON-LD file."""
    import rdflib  # noqa: PLC0415  an extra

    return rdflib.Graph().parse(file, format="json-ld", publicID=address)


def violations(graph):
    """Return what a graph breaks of DCAT-AP, as text; "" if it conforms."""
    import pyshacl  # noqa: PLC0415  an extra
    import rdflib  # noqa: PLC0415  an extra

    shapes = rdflib.Graph().parse(data=SHAPES, format="turtle")
    official = os.environ.get("HEXVEIL_DCAT_AP_SHAPES")
    for file in sorted(Path(official).glob("*.ttl")) if official else ():
        if "recommended" not in file.name:
            shapes.parse(file)
    conforms, _, text = pyshacl.validate(graph, shacl_graph=shapes)
    return "" if conforms else text


def test_dcat_conforms(folder):
    """Each release is one dataset of DCAT-AP, whose distributions are the folder's files."""
    import rdflib  # noqa: PLC0415  an extra

    graph = graph_of(folder / "dcat.jsonld")
    assert violations(graph) == ""
    dcat = rdflib.Namespace("http://www.w3.org/ns/dcat#")
    stated = json.loads((folder / "manifest.json").read_text()).get("catalogue", {})
    base = stated.get("base_url", ADDRESS)
    assert [str(node) for node in graph.subjects(rdflib.RDF.type, dcat.Dataset)] == [base]
    for address in graph.objects(None, dcat.downloadURL):
        assert (folder / str(address).removeprefix(base)).is_file()


def test_the_archive_conforms(archive):
    """The catalogue over days conforms, and lists both days in one series."""
    import rdflib  # noqa: PLC0415  an extra

    graph = graph_of(archive / "buses" / "dcat.jsonld")
    assert violations(graph) == ""
    dcat = rdflib.Namespace("http://www.w3.org/ns/dcat#")
    (series,) = graph.subjects(rdflib.RDF.type, dcat.DatasetSeries)
    assert len(set(graph.subjects(dcat.inSeries, series))) == 2
    assert {str(a).split("/maps/")[0] for a in graph.objects(None, dcat.downloadURL)} == {
        "https://data.example.org"
    }


def test_schema_org_is_json_ld(folder):
    """It is one Dataset with name, description and the folder's files."""
    import rdflib  # noqa: PLC0415  an extra

    content = json.loads((folder / "schema-org.jsonld").read_text("utf-8"))
    # Its context is on another host: the vocabulary alone gives the same terms.
    assert content["@context"] == "https://schema.org/"
    content["@context"] = {"@vocab": "https://schema.org/"}
    graph = rdflib.Graph().parse(data=json.dumps(content), format="json-ld", publicID=ADDRESS)
    schema = rdflib.Namespace("https://schema.org/")
    (dataset,) = graph.subjects(rdflib.RDF.type, schema.Dataset)
    assert 50 <= len(str(graph.value(dataset, schema.description))) <= 5000
    names = {str(address).rpartition("/")[2] for address in graph.objects(None, schema.contentUrl)}
    assert names <= {file.name for file in folder.iterdir()}
    assert "cells.csv" in names


def test_the_data_package_is_valid(folder):
    """Frictionless reads the package, and every row of cells.csv by its types."""
    import frictionless  # noqa: PLC0415  an extra

    report = frictionless.validate(str(folder / "datapackage.json"))
    assert report.valid, report.flatten(["type", "note"])
    (table,) = (task for task in report.tasks if task.name == "cells-csv")
    assert table.stats["rows"] == pa.parquet.read_table(folder / "cells.parquet").num_rows


def test_stac_is_valid(folder, archive):
    """Items, Collection and Catalog are valid by the schemas that pystac brings, and linked."""
    import pystac  # noqa: PLC0415  an extra

    files = [*folder.glob("stac-item.json"), *archive.rglob("stac-item.json")]
    for file in files:
        assert pystac.Item.from_file(str(file)).validate()
    catalog = pystac.Catalog.from_file(str(archive / "catalog.json"))
    catalog.validate()
    (collection,) = catalog.get_children()
    collection.validate()
    items = list(collection.get_items())
    assert len(items) == 2
    for item in items:
        item.validate()
