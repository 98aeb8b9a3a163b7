"""Plans of every kind come back to the bit, also those that earlier versions wrote."""

import base64
import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from hexveil.planning.goal import goal
from hexveil.planning.serialization import plan_codec
from planning.kinds_of_plans import KINDS, planned, records_of

WRITTEN = {
    form: json.loads(gzip.decompress(Path(__file__).with_name(file).read_bytes()))
    for form, file in ((1, "former_plans.json.gz"), (2, "former_plans_2.json.gz"))
}
"""Folder, ledger bytes and losses of each kind as hexveil wrote them in format 1, with goals, and
in format 2 before 27 November 2026: kinds whose words have changed since."""


def folder_of(files, path):
    """Write the files of a plan's folder as they were written."""
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".json"):
            (path / name).write_text(json.dumps(content))
        else:
            columns = {
                column: pa.array(values, type=pa.type_for_alias(kind))
                for column, (kind, values) in content.items()
            }
            pq.write_table(pa.table(columns), path / name)
    return path


@pytest.mark.parametrize(
    ("form", "name"), [(form, name) for form in WRITTEN for name in WRITTEN[form]]
)
def test_a_plan_written_before_is_the_same_plan(form, name, tmp_path):
    """Folder and ledger bytes give the losses that were booked, and the request that it was.

    Noise of variances had steps of its own then: their losses agree to nine digits.
    """
    written, records = WRITTEN[form][name], records_of(name)
    like = planned(name, records)
    folder = folder_of(written["folder"], tmp_path / "plan")
    loaded = hv.Plan.load(folder, records)
    kept = plan_codec.decode(base64.b85decode(written["ledger"]), like)
    for plan in (loaded, kept):
        np.testing.assert_allclose(plan.booked_losses, written["losses"], rtol=4e-9)
        assert goal(plan) == written.get("goal", goal(like)) == goal(like)


@pytest.mark.parametrize("name", KINDS)
def test_a_plan_comes_back_to_the_bit(name, tmp_path):
    """From folder and ledger alike: the same decisions, losses and request."""
    records = records_of(name)
    plan = planned(name, records)
    loaded = hv.Plan.load(plan.save(tmp_path / "plan"), records)
    # What is not given by the plan of the same goal is what comes back.
    kept = plan_codec.decode(plan_codec.encode(plan), planned(name, records))
    assert plan_codec.encode(kept) == plan_codec.encode(plan)
    for again in (loaded, kept):
        assert np.array_equal(again.booked_losses, plan.booked_losses)
        assert goal(again) == goal(plan)
        assert (again.epsilon, again.statistics) == (plan.epsilon, plan.statistics)
