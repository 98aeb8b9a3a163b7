"""Several value columns in a run file and as repeated options."""

import pytest

from hexveil import InputError
from records.printed import drafted, printed


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Stand beside records of the air."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "air.csv").write_text("sensor;time;pm25;no2=x;a,b;c.d\na;b;1;2;3;4\n")


def test_options_are_repeated_once_for_each_column():
    """An option may state one thing for all columns, or one for each."""
    options = (
        *("--value=pm25", "--value=no2=x", "--bounds=pm25=0,100", "--bounds=no2=x=-5,200"),
        *("--set=values.quantum=0.1", "--set=values.value_unit=pm25=ug/m3"),
        *("--set=privacy.fleet=pm25=300", "--set=privacy.fleet=no2=x=60"),
    )
    run = drafted("air.csv", "--trust-header", *options)
    assert run["columns"]["value"] == ["pm25", "no2=x"]
    assert run["values"] == {
        "bounds": {"pm25": ["0", "100"], "no2=x": ["-5", "200"]},
        "quantum": "0.1",
        "value_unit": {"pm25": "ug/m3"},
    }
    assert run["privacy"]["fleet"] == {"pm25": "300", "no2=x": "60"}
    with pytest.raises(InputError, match="takes one value column"):
        printed("map", "air.csv", "--yes", "--trust-header", *options)


@pytest.mark.parametrize(
    ("stated", "read"),
    [
        (["a,b=2", "c.d=5%"], {"a,b": "2", "c.d": "5%"}),
        (["mean=2,variance=5%"], {"mean": "2", "variance": "5%"}),
        ('{ "a,b" = { mean = 2 }, "c.d" = 1 }', {"a,b": {"mean": "2"}, "c.d": "1"}),
    ],
)
def test_targets_are_by_statistic_or_by_column(stated, read, tmp_path):
    """A point or a comma may be part of a name; what a draft repeats is read as it was."""
    (tmp_path / "run.toml").write_text('source = "air.csv"\ncolumns.value = ["a,b", "c.d"]\n')
    source, trusting = "run.toml", ["--trust-header"]
    if isinstance(stated, list):
        trusting += [f"--set=plan.target_error={one}" for one in stated]
    else:
        with (tmp_path / "run.toml").open("a") as file:
            file.write(f"plan.target_error = {stated}\n")
    draft = printed("inspect", source, "--init", *trusting)
    (tmp_path / "again.toml").write_text(draft.replace("FILL IN", "x"))
    for run in (drafted(source, *trusting), drafted("again.toml", "--trust-header")):
        assert run["plan"] == {"target_error": read}
