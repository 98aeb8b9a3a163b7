"""Folders that somebody changed, and sealed anew: what does not fit is named, in every kind.

A figure that was changed alone, in everything that shows it: tests/attack/test_forged_figures.py.
"""

import json
import math
import shutil
from fractions import Fraction

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from attack import folder_kinds
from hexveil.base import arrow_tables
from hexveil.publishing import receipt
from hexveil.publishing.estimates import places
from hexveil.publishing.folder import round_to_intervals
from hexveil.publishing.kinds.guarantee import epsilon_text
from hexveil.publishing.verification import verify
from hexveil.report.promise_wording import probability_factor, promise
from publishing.releases import (
    forge_json,
    forge_manifest,
    forge_whole,
    problems_after,
    released,
    said,
    seal,
)


class Folders(dict):
    """A folder of each kind that is asked for."""

    def __init__(self, home):
        super().__init__()
        self._home = home

    def __missing__(self, kind):
        self[kind] = folder_kinds.make(self._home, kind)
        return self[kind]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return a folder of each kind."""
    return Folders(tmp_path_factory.mktemp("folders"))


# ---- what is forged ----


def forge_table(place, column, change):
    """Change a column in all three tables and seal the folder."""
    table = pq.read_table(place / "cells.parquet")
    at = table.column_names.index(column)
    made = pa.array(change(table[column].to_pylist()), table.schema.field(column).type)
    table = table.set_column(at, table.schema.field(column), made)
    pq.write_table(table, place / "cells.parquet")
    plain = table.drop_columns([c for c in ("geometry",) if c in table.column_names])
    arrow_tables.write_csv(round_to_intervals(plain), place / "cells.csv")
    if (place / "cells.geojson").exists():
        (place / "cells.geojson").write_bytes(places.geojson(round_to_intervals(plain)))
    seal(place)


def stated(*path, to):
    """Forge a field of the statements of one value column: another value, or a function of it."""

    def change(own):
        *above, last = path
        for key in above:
            own = own[key]
        own[last] = to(own[last]) if callable(to) else to

    return edited(change)


def edited(change):
    """Forge the statements of one value column."""
    return lambda place: forge_manifest(place, change)


def without(*path):
    """Forge statements that lack a field."""

    def change(own):
        for key in path[:-1]:
            own = own[key]
        own.pop(path[-1])

    return edited(change)


def whole(change):
    """Forge the manifest of several value columns."""
    return lambda place: forge_whole(place, change)


def column(name, to):
    """Forge a number or text of a column in all tables: of the first cell that is not closed."""

    def change(values):
        at = next(n for n, one in enumerate(values) if one not in (None, "closed"))
        values[at] = to(values[at]) if callable(to) else to
        return values

    return lambda place: forge_table(place, name, change)


def scaled(key, times, statistic="mean"):
    """Forge a figure of all cells, in manifest and tables alike."""

    def forge(place):
        def change(own):
            for cell in own["cells"]:
                for part in cell["noised"]:
                    if part["statistic"] == statistic:
                        part[key] = times * part[key]
                        part["bound95"] = part["bias"] + part["scale"] * math.log(20)

        forge_table(place, f"{statistic}_{key}", lambda numbers: [times * one for one in numbers])
        forge_manifest(place, change)

    return forge


def text(name, old, new):
    """Forge a text of a file."""

    def forge(place):
        known = (place / name).read_text("utf-8")
        assert old in known
        (place / name).write_text(known.replace(old, new, 1), "utf-8")
        seal(place)

    return forge


def written(name, content):
    """Forge a file, without a receipt that fits."""
    return lambda place: (place / name).write_text(content)


def geojson(change):
    """Forge the cells of the map."""

    def forge(place):
        forge_json("cells.geojson", lambda collection: change(collection["features"]))(place)
        seal(place)

    return forge


def gone(name):
    """Take a file away, with a receipt that fits."""
    return lambda place: [(place / name).unlink(), seal(place)]


def plus(number):
    return lambda value: value + number


def times(number):
    return lambda value: value * number


def another(grade):
    return "good" if grade != "good" else "noise"


def cheaper(place):
    """State half the price everywhere where it is stated."""

    def change(own):
        half = own["losses"]
        for key in ("max", "p99", "p90", "median", "mean"):
            half[key] /= 2
        factor = math.exp(half["max"])
        spent = epsilon_text(Fraction(half["max"]))
        own["guarantee"] |= {"epsilon_spent": spent, "probability_factor": factor}
        for step in own["plan"]["privacy_steps"]:
            step["epsilon"] = str(float(step["epsilon"]) / 2)

    forge_manifest(place, change)


def half_of_any_unit(own):
    """State half of the loss of any unit, in all words that follow from it."""
    spent, delta = Fraction(own["guarantee"]["epsilon_spent"]) / 2, own["guarantee"]["delta"]
    own["guarantee"] |= {
        "epsilon_spent": epsilon_text(spent),
        "promise": promise("user", spent, protect="presence", delta=Fraction(delta)),
        "probability_factor": probability_factor(spent),
    }


def constant(own):
    """State cells without noise."""
    for cell in own["cells"]:
        for part in cell["noised"]:
            part["scale"] = 0.0


def fill_gaps(place):
    """State a number of a cell that a value column does not have."""
    table = pq.read_table(place / "cells.parquet")
    at = table.column_names.index("load_mean_raw")
    numbers = [7.0, *table["load_mean_raw"].to_pylist()[1:]]
    pq.write_table(
        table.set_column(at, table.schema.field(at), pa.array(numbers)), place / "cells.parquet"
    )
    seal(place)


def open_cells_alone(place):
    """Leave the closed cells out."""
    table = pq.read_table(place / "cells.parquet")
    pq.write_table(table.filter(pc.field("is_open")), place / "cells.parquet")
    seal(place)


def to_less(own):
    own["losses"]["mean"] /= 2


def in_schema(own):
    own["components"][0]["rules"] = {"records read": 200}


def ranged(**fields):
    """Forge the range of the first cell: other ends, or whether it was measured anew."""

    def change(own):
        first = own["cells"][0]["noised"][0]["clipping_range"]
        first |= {name: to(first[name]) if callable(to) else to for name, to in fields.items()}

    return edited(change)


def part(number, **fields):
    return stated("plan", "components", number, to=lambda known: known | fields)


ROWS, MAP, README = "the same rows", "the same cells", "README.txt is not what"
SUM, CHOSEN = "all units together lose", "does not follow from the histogram"
STEP = ("plan", "privacy_steps")
FORGED = [
    # Files and receipts.
    ("means", written("README.txt", "trust me"), "README.txt was changed"),
    ("means", lambda place: (place / "report.html").unlink(), "report.html is missing"),
    ("means", lambda place: (place / "extra.txt").touch(), "extra.txt was added"),
    ("means", lambda place: (place / "x").mkdir(), "x was added"),
    ("means", lambda place: (place / receipt.NAME).unlink(), "receipt.json is missing"),
    ("means", written("receipt.json", "{"), "receipt.json cannot be read"),
    ("means", written("cells.csv", "a"), "cells.csv was changed"),
    ("means", written("manifest.json", "{"), "manifest.json cannot be read"),
    ("means", written("manifest.json", "[]"), "manifest.json is not a JSON object"),
    ("means", forge_json("manifest.json", lambda all_: all_["ledger"].update(entry=8)),
     "different values of ledger"),
    ("means", without("guarantee", "epsilon_spent"), "breaks its schema at guarantee"),
    ("means", forge_json("manifest.json", lambda all_: all_.update(schema_version=9)),
     "has schema version 9"),
    ("means", forge_json("manifest.json", lambda all_: all_.update(schema_version=["1"])),
     "has schema version unknown"),
    ("means", forge_json(receipt.NAME, lambda own: own.update(receipt_version=2)),
     "receipt.json has a version that this program does not know"),
    ("means", forge_json(receipt.NAME, lambda own: own.pop("files")), "lacks its files"),
    ("means", forge_json(receipt.NAME, lambda own: own.update(files=["x"])), "lists no files"),
    ("means", lambda place: [(place / f"{k}.txt").touch() for k in range(120)], "more than 100"),
    ("means", edited(lambda own: own["rules"].update({f"rule {k}": k for k in range(30_000)})),
     "contains more beside its cells"),
    ("means", edited(lambda own: own["cells"].reverse()), "does not have the cells"),
    # What is made of the table.
    ("interval", geojson(lambda cells: cells[0]["properties"].update(records=0)), MAP),
    ("interval", geojson(lambda cells: cells.pop()), MAP),
    ("interval", geojson(lambda cells: cells.reverse()), MAP),
    ("interval", geojson(lambda cells: cells[0]["properties"].update(note="x")), MAP),
    ("interval",
     geojson(lambda cells: cells[0]["geometry"]["coordinates"][0].__setitem__(0, [72.0, 21.0])),
     MAP),
    ("interval", gone("cells.geojson"), "cells.geojson is missing"),
    ("squares", lambda place: [(place / "cells.geojson").write_text("{}"), seal(place)],
     "has no hexagons"),
    ("squares", text("cells.csv", ",30,", ",31,"), ROWS),
    ("squares", text("cells.csv", "\"'=", '"='), ROWS),
    ("squares", text("README.txt", "epsilon 40", "epsilon 4"), README),
    ("interval", column("hexagon", lambda name: f"0{name}"), "none of the grid"),
    ("interval", column("name", "Paris"), "name is not what"),
    ("interval", column("date", "2020-01-01"), "date is not what"),
    ("interval", column("lat", 48.9), "lat is not what"),
    # Numbers of means and variances.
    ("squares", column("mean_scale", plus(0.25)), "mean_scale does not follow from mean_noisy"),
    ("squares", column("mean_raw", plus(0.25)), "mean_raw does not follow from mean_noisy"),
    ("squares", column("mean_noisy", plus(1e-6)), "that is not on the grid"),
    ("squares", column("mean_quality", "splendid"), "mean_quality is not that of its bound"),
    ("squares", column("mean_raw", float("nan")), "mean_raw has a row without a value"),
    ("means", column("mean_smoothed", 999.0), "no interval within the bounds, around mean"),
    ("interval", stated("accuracy", 0, "typical_error", to=0.01), "accuracy of mean/typical_error"),
    ("interval", stated("accuracy", 0, "beats_constant", to=lambda one: not one), "mean/beats"),
    ("interval", stated("accuracy", 0, "basis", to="prediction"), "mean_estimate"),
    ("interval", stated("accuracy", 0, "grades", "good", to=plus(1)), "accuracy of mean/grades"),
    ("squares", stated("accuracy", 0, "beats_constant", to=lambda one: not one), "beats_constant"),
    # Losses of means and variances.
    ("means", scaled("scale", 0.5), SUM),
    ("per-cell", scaled("scale", 2), SUM),
    ("interval", scaled("scale", 0.5), SUM),
    ("cell-ranges", scaled("scale", 0.5), SUM),
    ("variance", scaled("scale", 1e-3, "variance"), SUM),
    ("means", cheaper, SUM),
    ("means", stated("losses", "at_zero", to=29), "the most exposed unit loses"),
    ("means", stated("guarantee", "epsilon_requested", to="1"), "more was spent"),
    ("means", stated("guarantee", "l0_epsilon", to="1"), "is no sum over cells"),
    ("means", stated("losses", "median", to=times(3)), "are not in order"),
    ("means", stated("losses", "units", to=3), "fewer units than a cell"),
    ("interval", stated(*STEP, 0, "epsilon", to="0.1"), "do not add up"),
    ("interval", stated(*STEP, to=lambda steps: steps[1:]), "do not add up"),
    ("means", stated(*STEP, to=[]), "do not add up"),
    ("means", stated("cells", 0, "noised", 0, "contribution_cap", to=0), "keeps no record"),
    ("means", edited(constant), "mean_scale does not follow"),
    ("mechanism", stated(*STEP, 0, "stages", 0, "epsilon", to="9"), "stages of cells"),
    ("mechanism", stated(*STEP, 0, "stages", 0, "epsilon", to="0.001"), "stages of cells"),
    ("mechanism", stated(*STEP, 0, "stages", 0, "cells", to=99), "more cells than there are"),
    ("mechanism", stated(*STEP, 0, "cell_epsilon", to="0.01"), "the most exposed unit loses"),
    # Ranges.
    ("cell-ranges", ranged(lower=-9.0), "not within the bounds"),
    ("cell-ranges", ranged(moved=lambda moved: not moved), SUM),
    ("cell-ranges", ranged(upper=59.0), SUM),
    ("cell-ranges", stated(*STEP, 0, "centre", to=1000.0), CHOSEN),
    ("cell-ranges", stated(*STEP, 0, "above", to=0.2), CHOSEN),
    ("cell-ranges", stated(*STEP, 0, "votes", to=[10.0] * 9), "bins that no release has"),
    ("cell-ranges", stated(*STEP, 0, "votes", to=lambda votes: votes[::-1]), CHOSEN),
    ("cell-ranges", without("cells", 0, "noised", 0, "clipping_range"), "cannot be compared"),
    # Distributions.
    ("distribution", edited(lambda own: own["plan"]["statistics"].pop()), "has a column"),
    ("distribution", stated("losses", "mean", to=times(0.99)), "do not add up to that"),
    ("distribution", stated("moments", "losses", "mean", to=times(0.9)), "moments: all units"),
    ("distribution", column("p50_estimate", 99.0), "no interval within its limits"),
    ("distribution", column("share_below_20_high", 1.5), "share_below_20"),
    ("distribution", column("histogram_03_estimate", plus(0.3)), "do not add up to 1"),
    ("distribution", column("p50_quality", another), "accuracy of p50/grades"),
    ("delta", stated("guarantee", "delta", to="0.0000001"), "not that of the largest square"),
    ("delta", stated("losses", "squared_mu", "mean", to=times(0.2)), "all units together"),
    ("delta", stated("cells", 0, "noised", 0, "scale", to=times(0.5)), "by the scales"),
    ("delta", stated(*STEP, 0, "squared_mu", to=times(0.9)), "do not add up"),
    ("distribution-delta", without("guarantee", "delta"), "stated without a delta"),
    ("distribution-delta", stated("guarantee", "delta", to="0.0000001"), "of mu at this delta"),
    ("distribution-delta", stated("guarantee", "delta", to="0.5"), "one over the number"),
    ("distribution-delta", part(1, squared_mu={"max": 1e-3, "mean": 1e-3}), "mean loss of the"),
    ("distribution-delta", part(1, epsilon="0.1"), "shape/epsilon"),
    ("distribution-delta", part(0, squared_mu={"max": 1.0, "mean": 1.0}), "moments/squared_mu"),
    ("distribution-delta", part(1, squared_mu={"max": 1e300, "mean": 1.0}), "breaks its schema"),
    ("distribution-delta", stated("losses", "squared_mu", "mean", to=1e-3), "do not add up"),
    ("distribution-delta", stated("plan", "components", 1, "stages", 0, "scale", to=1e-300),
     "mean loss of the"),
    # Private presence.
    ("presence", column("mean", 101.0), "mean_low, mean"),
    ("presence", column("mean_smoothed", -1.0), "mean_smoothed"),
    ("presence", column("mean_range_low", 101.0), "no range within the bounds"),
    ("presence", column("quality", another), "quality is not that"),
    ("presence", column("mean", None), "mean is there"),
    ("presence", lambda place: forge_table(
        place, "is_open", lambda cells: [n != cells.index(True) and c for n, c in enumerate(cells)]
    ), "is there for a closed cell"),
    ("presence", column("cell", lambda name: f"{name}x"), "declared grid"),
    ("presence-shapes", column("p50", 99.0), "p50_low, p50"),
    ("presence-shapes", column("share_below_20", 1.5), "share_below_20"),
    ("presence-shapes", column("histogram_05", plus(0.1)), "do not add up to 1"),
    ("presence-shapes", column("p50_quality", "closed"), "p50_quality is not"),
    ("presence-shapes", column("p50", None), "p50 is there"),
    ("presence-shapes", column("users_quality", "closed"), "users_quality is not"),
    ("presence-shapes", column("users", None), "users is there"),
    ("presence", stated("plan", "stages", -1, to=lambda own: own | {"sensitivity": 2**19}),
     "sensitivity below"),
    ("presence", stated("guarantee", "promise", to="Nothing is learned."), "guarantee/promise"),
    ("presence", stated("grid", "fingerprint", to="0" * 64), "declared grid"),
    ("presence", edited(lambda own: own["plan"]["histogram"]["votes"].pop()), "plan/histogram is"),
    ("presence", edited(lambda own: own["plan"]["histogram"]["edges"].reverse()),
     "plan/histogram is"),
    ("presence", without("plan", "histogram"), "plan does not belong"),
    ("presence", edited(lambda own: own.update(users=5)), "breaks its schema"),
    ("presence", open_cells_alone, "as many rows as manifest.json"),
    ("presence-shapes", stated("plan", "statistics", to=["mean", "users"]), "does not belong"),
    ("presence-shapes", without("plan", "cell_cap"), "plan does not belong"),
    ("presence-shapes", stated("plan", "statistics", to=["p50", "p50.0", "users"]),
     "that no release has"),
    ("presence-shapes", stated("plan", "statistics", to=["share<900", "users"]),
     "plan/columns are not"),
    ("presence-shapes", stated("plan", "statistics", to=["p50", "users"]),
     "are not those of plan/statistics"),
    ("presence-delta", edited(half_of_any_unit), "more than guarantee/epsilon_spent"),
    ("presence-delta", stated("guarantee", "delta", to="0.0000001"), "guarantee/promise"),
    ("presence-delta", without("guarantee", "delta"), "Gaussian noise keeps no pure"),
    ("presence-delta", stated("guarantee", "delta", to="0.5"), "below one over the number"),
    ("presence-delta", stated("guarantee", "delta", to="0.000"), "no guarantee/delta"),
    ("presence-delta", stated("plan", "stages", -1, "scale", to=1e-300), "not that of its noise"),
    # Several value columns.
    ("columns", fill_gaps, "does not follow"),
    ("columns", whole(to_less), "losses/mean is not that"),
    ("columns", whole(lambda all_: all_.update(ledger=None)), "entry in a ledger"),
    ("columns", whole(lambda all_: all_["components"][1]["plan"]["statistics"].append("sd")),
     "other statistics"),
    ("columns", whole(lambda all_: all_["guarantee"]["assumptions"].pop()), "assumptions"),
    ("columns", whole(lambda all_: all_["components"].reverse()), README),
    ("columns", whole(lambda all_: (all_["components"].pop(), all_["components"][0].pop("weight"))),
     "speed_users"),
    ("columns", whole(lambda all_: all_["components"][1]["dataset"].update(value="speed")),
     "names a value column twice"),
    ("presence-columns", whole(lambda all_: all_["guarantee"].update(epsilon_spent="2")),
     "not the sum of the losses"),
    ("presence-columns", whole(lambda all_: all_["guarantee"].update(protect="values")),
     "another privacy model"),
    ("presence-columns", whole(in_schema), "breaks its schema at components/0"),
    ("presence-columns", whole(lambda all_: all_["grid"].update(cells=3)),
     "as many rows as manifest.json"),
    ("presence-columns", whole(lambda all_: all_["guarantee"]["assumptions"].append("x")),
     "assumptions"),
    ("presence-columns", whole(lambda all_: all_["components"][0].pop("weight")),
     "components/weight"),
]  # fmt: skip
"""A kind of folder, what is forged, and what is said."""
KINDS = sorted({kind for kind, *_ in FORGED})
QUICK = ("means", "presence")


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[] if kind in QUICK else [pytest.mark.slow]) for kind in KINDS],
)
def test_a_forged_folder_is_found(folders, tmp_path, kind):
    """What was changed, taken away or added is named, also under a new receipt."""
    assert verify.find_problems(folders[kind]) == ()
    missed = []
    for number, (own, forge, sentence) in enumerate(FORGED):
        if own == kind:
            found = problems_after(forge, folders[kind], tmp_path / f"{number}")
            if sentence not in " ".join(found):
                missed.append((number, sentence, found))
    assert missed == []


def test_other_spellings_of_the_same_are_accepted(folders, tmp_path):
    """Blanks in JSON and digits of a corner say the same."""
    place = shutil.copytree(folders["interval"], tmp_path / "map")
    cells = json.loads((place / "cells.geojson").read_text("utf-8"))
    cells["features"][0]["geometry"]["coordinates"][0][0][0] += 1e-13
    (place / "cells.geojson").write_text(json.dumps(cells, indent=1), "utf-8")
    seal(place)
    assert verify.find_problems(place) == ()


def test_words_of_another_version_are_not_compared(folders, tmp_path):
    """README.txt of another version is not made anew, and that is said."""
    place = shutil.copytree(folders["squares"], tmp_path / "map")
    (place / "README.txt").write_text("other words")
    forge_manifest(place, lambda own: own["software"].update(hexveil="0.0.1"))
    found = verify.check_folder(place)
    assert found.problems == ()
    assert any("words of README.txt" in one for one in found.unknown)
    assert said(place)["software"]["hexveil"] == "0.0.1"


def test_a_page_with_a_layer_of_its_holder_is_compared_without_it(tmp_path):
    """Its lines and names are the holder's, and named as such; whatever else differs is found."""
    lines = {"type": "LineString", "coordinates": [[72.75, 21.2], [72.85, 21.22]]}
    (tmp_path / "roads.json").write_text(json.dumps(lines), "utf-8")
    folder = released(tmp_path / "map", "means", mapped=True, context=tmp_path / "roads.json")
    verdict = verify.check_folder(folder)
    assert verdict.problems == ()
    assert "the lines and names of the holder's own layer on the page" in verdict.unknown
    for number, (old, new) in enumerate((("</h1>", " x</h1>"), ('"records":[', '"records":[9,'))):
        forged = problems_after(text("report.html", old, new), folder, tmp_path / f"{number}")
        assert any("report.html is not what" in one for one in forged)
