"""Options of `plan`: each is stated once; what does not go together is one sentence."""

import inspect
import re

import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.cli import main
from planning.sums import sums_of

MAPS = hv.Labels("ward", values=["a", "b", "c"])
MEANS = sums_of([[2, 1], [1, 1], [1, 3]] * 4)
SHAPES = ("p50", "share<30")


def records_of(value, bounds, statistics):
    """Return one record of each of 60 vehicles in three wards."""
    rows = [
        {"bus": f"{k % 60}", "ward": "abc"[k // 60], "v": 30 + k % 60 % 7, "w": k % 7}
        for k in range(180)
    ]
    return hv.read(
        pa.Table.from_pylist(rows), user="bus", value=value, bounds=bounds, statistics=statistics,
        cells=hv.Labels("ward"), repeats="keep", accept_single_records=True,
    )  # fmt: skip


def declared(statistics=()):
    """Return facts of a declared map."""
    return hv.declare(
        user="user", value="speed", bounds=(0, 60), cells=MAPS, protect="presence",
        statistics=statistics,
    )  # fmt: skip


@pytest.fixture(scope="module")
def sources():
    """Return a data set of each kind that rules tell apart."""
    both = {"v": (0, 60), "w": (0, 60)}
    return {
        "means": MEANS,
        "shapes": records_of("v", (0, 60), SHAPES),
        "columns": records_of(["v", "w"], both, ()),
        "columns of shapes": records_of(["v", "w"], both, SHAPES),
        "presence": declared(),
        "users": declared("users"),
    }


def test_signature_and_run_file_have_the_options(capsys):
    """`plan` takes them by name; a run file has them in [plan], [privacy] and [values]."""
    parameters = dict(inspect.signature(hv.plan).parameters)
    del parameters["source"]
    assert main(["help", "fields"]) == 0
    _, *parts = re.split(r"^\[(\w+)\]$", capsys.readouterr().out, flags=re.MULTILINE)
    sections = {
        name: dict(re.findall(r"^(\w+) +(.*(?:\n .*)*)", text, re.MULTILINE))
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    }
    elsewhere = {"bounds", "advise", "fleet", "delta", "history"}
    assert {*parameters} - {*sections["plan"]} == elsewhere
    assert {*sections["plan"]} <= {*parameters}
    assert {"fleet", "delta"} <= {*sections["privacy"]}
    for name, parameter in parameters.items():
        assert f"\n{name} : " in inspect.getdoc(hv.plan)
        stated = re.search(r"\[default:\s+(\S+)\]", sections["plan"].get(name, ""))
        assert (stated and stated[1]) == (parameter.default if name in WORDS else None)


WORDS = {"method", "clipping_range"}
"""Options whose default is a word."""


@pytest.mark.parametrize("name", ["method", "objective", "clipping_range", "estimator"])
def test_library_and_run_file_take_the_same_words(name, tmp_path, capsys):
    """Another word is refused with the list of those that there are."""
    with pytest.raises(hv.InputError, match=f"{name} must be one of .*magic") as caught:
        hv.plan(MEANS, epsilon=1, **{name: "magic"})
    words = re.search(r"one of (.*), got", str(caught.value))[1]
    records = tmp_path / "records.csv"
    records.write_text("bus,v\n1,2\n")
    assert main(["plan", str(records), "--set", f"plan.{name}=magic"]) != 0
    assert words in " ".join(capsys.readouterr().err.split())


OPTIONS = (
    {"bounds": (0, 1)}, {"method": "per-cell"}, {"objective": "max"}, {"range_share": "0.1"},
    {"clipping_range": "private"}, {"mechanism": "Baseline"},
)  # fmt: skip
LEVY = {"method": "per-cell", "mechanism": "Levy(gamma=1)"}
TARGET = {"epsilon": None, "target_error": 2}
RULES = [
    *(
        (source, option, f"{next(iter(option))} .*leave it out")
        for source in ("presence", "shapes")
        for option in OPTIONS
    ),
    ("presence", {"estimator": "bins"}, "estimator .*leave it out"),
    ("presence", {"fleet": None}, "fleet .* is needed"),
    ("means", {"fleet": 9}, "fleet goes with .*the units are counted here"),
    ("users", {"statistics": "users", "baseline_error": 2}, "numbers of units alone"),
    ("columns", {"history": ()}, "history goes with a single value column"),
    ("columns", {"bounds": (0, 1)}, "bounds goes with a single value column"),
    ("columns of shapes", TARGET, "target_error .*one by one"),
    ("columns", TARGET | {"weights": {"v": 2}}, "weights divide"),
    ("means", {"weights": {"moments": 2}}, "weights goes with quantiles"),
    ("means", {"estimator": "bins"}, "estimator goes with quantiles"),
    ("means", LEVY | {"statistics": "variance"}, "publish the mean alone"),
    ("means", LEVY | TARGET, "within epsilon, not target_error"),
    *(
        ("means", option | {"method": method}, 'goes with method "joint", not')
        for option in ({"clipping_range": "private"}, {"clipping_range": "per-cell"})
        for method in ("per-cell", "equal-split", "clip-user")
    ),
    *(
        ("means", {"delta": "0.001", "method": method}, f'joint", not with.*{method}')
        for method in ("per-cell", "clip-user")
    ),
]
"""What is asked of which data set, and words of the refusal: rules of docs/reference/options.md.

The others, of means alone, are in test_request.py.
"""


@pytest.mark.parametrize(("source", "asked", "words"), RULES, ids=str)
def test_what_does_not_go_together_is_refused_in_one_sentence(sources, source, asked, words):
    """Whatever is beside what excludes it, or without what it needs, is named with a way out."""
    usual = {"epsilon": 1, "advise": False}
    usual |= {"fleet": 40} if source in ("presence", "users") else {}
    usual |= {"statistics": SHAPES} if "shapes" in source else {}
    with pytest.raises(hv.InputError, match=words) as caught:
        hv.plan(sources[source], **usual | asked)
    assert str(caught.value).endswith(".")
    assert "{" not in str(caught.value)


def test_distributions_are_planned_within_target_errors(sources):
    """The least ε of two figures is taken: a little less, and a prediction is above its target."""
    dataset, goals = sources["shapes"], {"p50": 4, "share<30": "5%"}
    plan = hv.plan(dataset, statistics=SHAPES, target_error=goals, advise=False)
    epsilon = float(plan.requested_epsilon)
    assert epsilon == float(f"{epsilon:.1e}")

    def errors(asked):
        at = hv.plan(dataset, statistics=plan.statistics, epsilon=asked, advise=False)
        return [error.error for error in at.statistic_errors]

    within = lambda found: found[0] <= 4 and found[1] <= 0.05  # noqa: E731
    assert within(errors(epsilon))
    step = 10.0 ** (int(f"{epsilon:.1e}".split("e")[1]) - 1)
    assert not within(errors(round(epsilon - step, 6)))
    with pytest.raises(hv.InputError, match="must name p50 and share<30, got p50"):
        hv.plan(dataset, statistics=SHAPES, target_error={"p50": 2})
    with pytest.raises(hv.InputError, match="no epsilon up to 100 is predicted to meet"):
        hv.plan(dataset, statistics="p50", target_error="0.0001%")


@pytest.mark.parametrize(
    ("statistics", "goals"), [(None, 3), (("mean", "users"), {"mean": "5%", "users": 40})]
)
def test_private_presence_is_planned_within_target_errors(statistics, goals):
    """As for an ε that is named: the expected errors are within the targets."""
    facts = declared(statistics or ())
    options = {"fleet": 4000, "statistics": statistics, "advise": False}
    plan = hv.plan(facts, target_error=goals, **options)
    assert plan.expected[0] <= 3
    named = hv.plan(facts, epsilon=plan.epsilon, **options)
    assert named.figures() == plan.figures()
    less = hv.plan(facts, epsilon=float(plan.epsilon) * 0.89, **options)
    counts = less.prediction.counts
    assert less.expected[0] > 3 or (counts is not None and counts.count_error > 40)
