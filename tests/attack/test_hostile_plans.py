"""One table of hostile edits of saved plans: whatever a stranger writes, no plan gets cheaper.

Digests are no secret, so that every edit is sealed by one that fits. What is refused is one
sentence; what loads has the losses that were saved.
"""

import json
import re
import shutil

import numpy as np
import pytest

import hexveil as hv
from examples import some
from hexveil.planning import saved_plans
from hexveil.planning.codec import pack_bytes, unpack_bytes
from hexveil.planning.saved_plans import ARRAYS, digest
from planning.kinds_of_plans import KINDS, planned, records_of

VALUES = (None, True, -1, 0, 2**70, 1e308, "x", "0", "-1", "1e999", "1/0", [], ["x"], {}, {"is": 1})
NUMBERS = (float("nan"), float("inf"), -1.0, 0.0, 1e300)
WHOLE = (-1, 0, 2**62)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return the records, the plan and the folder of each kind."""
    place, made = tmp_path_factory.mktemp("plans"), {}
    for name in KINDS:
        records = records_of(name)
        plan = planned(name, records)
        made[name] = records, plan, plan.save(place / name)
    return made


def read(folder):
    """Return the words of a plan's folder and its arrays by name."""
    words = json.loads((folder / "plan.json").read_text("utf-8"))
    return words, unpack_bytes((folder / ARRAYS).read_bytes())[1]


def write(folder, words, arrays, *, sealed=True):
    """Write words and arrays into a plan's folder, with the digest that fits them."""
    (folder / ARRAYS).write_bytes(pack_bytes({}, arrays))
    if sealed:
        words = {name: word for name, word in words.items() if name != "digest"}
        words["digest"] = digest(json.loads(json.dumps(words)), folder)
    (folder / "plan.json").write_text(json.dumps(words))


def load(folder, records, plan):
    """Return the plan of a folder, or the sentence that refuses it."""
    try:
        return hv.Plan.load(folder, records)
    except hv.InputError as error:
        text = str(error)
        assert str(folder) in text
        assert text.endswith((".", "?"))
        assert "\n" not in text
        return text


def leaves(words, path=()):
    """Yield the path of every word, of the objects too."""
    items = {}
    if isinstance(words, (dict, list)):
        items = words if isinstance(words, dict) else dict(enumerate(words))
    for name, word in items.items():
        yield (*path, name)
        yield from leaves(word, (*path, name))


def changed(words, path, *to):
    """Return words with another one at a path, or without the one that is there."""
    (name, *inside), made = path, words.copy()
    if inside:
        made[name] = changed(words[name], inside, *to)
    elif to:
        made[name] = to[0]
    else:
        del made[name]
    return made


def hostile_words(words):
    """Yield the words of a plan, each time with one of another kind, missing, or added."""
    for number, path in enumerate(leaves(words["plan"], ("plan",))):
        yield changed(words, path)
        # Every value meets every kind of field somewhere: all of each would take a minute.
        for value in VALUES[number % 5 :: 5]:
            yield changed(words, path, value)
        if isinstance(path[-1], str):
            yield changed(words, (*path[:-1], "other"), "x")


def same(plan, loaded):
    """Return whether a loaded plan costs each unit what the saved one does, but for late digits."""
    return np.allclose(plan.booked_losses, loaded.booked_losses, rtol=1e-12, atol=0.0)


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("cell ranges", "targets", "stages")]


@pytest.mark.parametrize("name", [*some(["bins", "range", "columns"], 1), *SLOW])
def test_words_of_a_stranger_are_refused_or_cost_the_same(folders, name, tmp_path):
    """Each word of plan.json is replaced, removed and joined by another one."""
    records, plan, folder = folders[name]
    words, arrays = read(folder)
    copied, refused = shutil.copytree(folder, tmp_path / "plan"), 0
    for edited in hostile_words(words):
        write(copied, edited, arrays)
        loaded = load(copied, records, plan)
        refused += isinstance(loaded, str)
        assert isinstance(loaded, str) or same(plan, loaded), edited
    assert refused > 50


def hostile_arrays(arrays):
    """Yield the arrays of a folder, one missing, shorter, or with a number that no plan has."""
    for name, array in arrays.items():
        yield {other: own for other, own in arrays.items() if other != name}
        yield arrays | {name: array[1:]}
        yield arrays | {name: array[:0]}
        yield arrays | {name: array.astype(float if array.dtype.kind != "f" else int)}
        for value in NUMBERS if array.dtype.kind == "f" else WHOLE:
            edited = array.copy()
            edited[-1] = value if array.dtype.kind != "u" else abs(value)
            yield arrays | {name: edited}


@pytest.mark.parametrize("name", ["range", *SLOW])
def test_arrays_of_a_stranger_are_refused_or_cost_the_same(folders, name, tmp_path):
    """Each array has NaN, negative, huge and missing numbers in turn."""
    records, plan, folder = folders[name]
    words, arrays = read(folder)
    copied = shutil.copytree(folder, tmp_path / "plan")
    for edited in hostile_arrays(arrays):
        write(copied, words, edited)
        loaded = load(copied, records, plan)
        assert isinstance(loaded, str) or same(plan, loaded)


def test_an_edit_is_noticed(folders, tmp_path):
    """Without a digest that fits, any change of any content is named as an edit."""
    records, plan, folder = folders["range"]
    words, arrays = read(folder)
    copied = shutil.copytree(folder, tmp_path / "plan")
    for edited in [*hostile_words(words)][::7]:
        write(copied, edited, arrays, sealed=False)
        assert edited == words or "was edited after" in load(copied, records, plan)
    for edited in [*hostile_arrays(arrays)][::3]:
        write(copied, words, edited, sealed=False)
        is_same = pack_bytes({}, edited) == pack_bytes({}, arrays)
        assert is_same or "was edited after" in load(copied, records, plan)


@pytest.mark.parametrize("name", ["range", "ranks", "bins", *SLOW])
def test_a_damaged_row_of_the_ledger_is_one_sentence(folders, name):
    """Words that no plan has are a damaged ledger, or a plan of the same records."""
    _, plan, _ = folders[name]
    words, arrays = saved_plans.pack_decisions(plan)
    for edited in hostile_words({"plan": words}):
        try:
            decoded = saved_plans.decode(pack_bytes(edited["plan"], arrays), plan)
        except (hv.StorageError, hv.InputError) as error:
            assert "restore the ledger" in str(error) or "come out otherwise" in str(error)  # noqa: PT017
        else:
            assert decoded.booked_losses.shape == plan.booked_losses.shape


ALLOCATION = ("plan", "allocation")
RANGE = (*ALLOCATION, "clipping")
REFUSED = [
    ("bounds", ("figures", "epsilon"), "1/8", "states a loss that its decisions"),
    ("bounds", ("plan", "request", "method"), "magic", "method is 'magic', which no plan has"),
    ("bounds", ("plan", "request", "mechanism"), "Nothing()", "there is no 'Nothing'"),
    ("bounds", ("plan", "request", "epsilon"), None, "either a loss or targets"),
    ("bounds", ("plan", "request", "epsilon"), "-1", "request.epsilon must be above 0"),
    ("bounds", ("plan", "colour"), "red", "colour is no field"),
    ("delta", ("plan", "request", "method"), "clip-user", "delta goes with"),
    ("range", RANGE, {"is": "WithinBounds"}, "do not fit together"),
    ("range", (*RANGE, "quantiles"), ["0.9", "0.1"], "quantiles or a width"),
    ("range", (*RANGE, "radius"), "1/2", "a radius that no plan has"),
    ("cell ranges", (*RANGE, "first_share"), "2", "shares of epsilon"),
    ("stages", (*ALLOCATION, "clipping", "stages"), "0", "come out otherwise in this version"),
    ("stages", (*ALLOCATION, "clipping", "choices"), ["0"], "one choice of a mechanism for each"),
    ("bins", ("plan", "component", "bin_epsilon"), "30", "above the epsilon"),
    ("bins", ("plan", "requested_epsilon"), "3.9", "above the epsilon"),
    ("bins", ("plan", "terms"), [], "no quantile, share or histogram"),
    ("bins", ("records", "", "fingerprint"), "0", "who reported how"),
    ("bins", ("records", "", "bins"), "1", "counted by"),
    ("ranks with delta", ("plan", "delta"), "0", "all parts of a plan have one delta"),
    ("indicator", ("plan", "component", "share"), "share<21", "the single share"),
    ("columns", ("plan", "requested_epsilon"), "0.5", "above the epsilon"),
    ("columns", ("plan", "weights"), {"speed": "1"}, "weights are not one"),
    ("columns with targets", ("plan", "requested_epsilon"), "9", "or conversely"),
]


@pytest.mark.parametrize(("name", "path", "word", "message"), REFUSED)
def test_a_refusal_says_what_is_wrong(folders, name, path, word, message, tmp_path):
    """Where it matters, the sentence names the field or the part, and what it must be."""
    records, plan, folder = folders[name]
    words, arrays = read(folder)
    copied = shutil.copytree(folder, tmp_path / "plan")
    write(copied, changed(words, path, word), arrays)
    assert re.search(message, load(copied, records, plan))


NOISE, CAP, FACTOR, WEIGHT, WEIGHT_FACTOR, VARIANCE = (
    f"allocation.{name}"
    for name in (
        "noise_scale_records", "contribution_cap", "contribution_factor",
        "clipping.weight.total", "clipping.weight.factor", "variance_noise",
    )
)  # fmt: skip
ROWS = [
    ("bounds", NOISE, 0.0, "the mean keeps records without noise in row"),
    ("bounds", NOISE, float("nan"), "noise is no scale in row 0"),
    ("bounds", CAP, -1, "keeps fewer than 0 records in row 0"),
    ("bounds", "lower", 60.0, "bounds do not rise in row 0"),
    ("bounds", FACTOR, 1.5, "factor is not from 0 to 1 in row 0"),
    ("range", WEIGHT, 2**-60, "weights that no plan has"),
    ("range", WEIGHT_FACTOR, 1.5, "weights that no plan has"),
    ("range", VARIANCE, 0.0, "the variance keeps records without noise"),
    ("targets", "request.target.mean", float("nan"), "request.target of 'mean'"),
]


@pytest.mark.parametrize(("name", "array", "value", "message"), ROWS)
def test_a_row_that_no_plan_has_is_named(folders, name, array, value, message, tmp_path):
    """Arrays are checked row by row, and the sentence names the first row that is wrong."""
    records, plan, folder = folders[name]
    words, arrays = read(folder)
    copied = shutil.copytree(folder, tmp_path / "plan")
    arrays[array][0] = value
    write(copied, words, arrays)
    assert re.search(message, load(copied, records, plan))


def test_a_factor_above_one_is_refused_though_its_weights_are_those_of_the_plan(folders, tmp_path):
    """With totals as much larger every weight stays the same; no user counts more than once."""
    records, plan, folder = folders["range"]
    words, arrays = read(folder)
    copied = shutil.copytree(folder, tmp_path / "plan")
    write(copied, words, arrays | {name: 1.5 * arrays[name] for name in (WEIGHT_FACTOR, WEIGHT)})
    assert "weights that no plan has" in load(copied, records, plan)
