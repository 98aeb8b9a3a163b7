"""Lines that a user of pandas types first, at a release: each works, or says what to type."""

import importlib

import pytest

import hexveil as hv
from publishing.releases import release_of

pytest.importorskip("pandas")
pytest.importorskip("polars")

SESSION = {"pd": "pandas", "pl": "polars", "pa": "pyarrow", "pc": "pyarrow.compute", "np": "numpy"}
SESSION |= {"json": "json", "duckdb": "duckdb"}

WORKING = [
    "release",
    "print(release)",
    "len(release)",
    "release.columns",
    "release.head()",
    "release.head(3)['mean_raw'].max()",
    "release['mean']",
    "release['mean_raw'].mean()",
    "release['mean'] > 20",
    "release[['cell', 'mean']].to_pandas()",
    "release[release['mean_quality'] != 'noise'].num_rows",
    "release['users'].sum()",
    "'mean' in release",
    "[row['cell'] for row in release]",
    "sorted(release, key=lambda row: row['mean_bound95'])[0]",
    "max(release['mean'])",
    "release.to_pandas().sort_values('mean_raw').head()",
    "release.to_pandas().groupby('slot')['mean_raw'].mean()",
    "release.to_pandas().query('users > 5').describe()",
    "release.to_pandas().set_index('cell').loc[release['cell'][0]]",
    "release.to_pandas().pivot(index='hexagon', columns='slot', values='mean_raw')",
    "release.to_pandas().to_csv('cells.csv', index=False)",
    "pd.DataFrame(release).shape",
    "release.to_polars().filter(pl.col('users') > 5)",
    "pl.DataFrame(release).sort('mean_raw')",
    "release.table.filter(pc.field('users') > 5)",
    "release.table.sort_by('mean_raw')",
    "pa.table(release).column('mean_raw')",
    "release.to_arrow().schema.field('mean_raw').metadata",
    "duckdb.sql('SELECT slot, avg(mean_raw) FROM release GROUP BY slot').df()",
    "json.dumps(release.__geo_interface__)",
    "np.average(release['mean_noisy'], weights=release['records'])",
    "release.plot()",
    "release.plot(slot=release['slot'][0])",
    "release.plot('records')",
    "release.write('map')",
    "hv.load('map').head()",
    "float(release.epsilon)",
    "release.manifest['guarantee']['promise']",
]
REFUSED = {
    "release['speed']": "no column 'speed'",
    "release[0]": "named by text",
    "release.mean_raw": r"release\['mean_raw'\]",
    "release.sort_values('mean')": r"release\.to_pandas\(\)",
    "release.groupby('slot')": r"release\.to_pandas\(\)",
    "release.loc[0]": r"release\.to_pandas\(\)",
    "release.shape": r"release\.to_pandas\(\)",
}


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """Return what a session has imported, and a release of hexagons in two slots."""
    loaded = {name: importlib.import_module(module) for name, module in SESSION.items()}
    release = release_of(tmp_path_factory.mktemp("pandas") / "map", "means", mapped=True)
    return loaded | {"hv": hv, "release": release}


def test_lines_work(names, tmp_path, monkeypatch):
    """Each line gives something, in the order of a session."""
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    for line in WORKING:
        shown = eval(line, dict(names))  # noqa: S307  our own lines
        assert shown is not None or line.startswith(("print", "release.to_pandas().to_csv")), line
    plt.close("all")


@pytest.mark.parametrize("line", REFUSED)
def test_other_lines_say_what_to_type(names, line):
    """The message has the line that does it, or names what there is."""
    with pytest.raises((hv.InputError, AttributeError), match=REFUSED[line]):
        eval(line, dict(names))  # noqa: S307  our own lines
