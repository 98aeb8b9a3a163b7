"""Output files of reproduction: a folder per study, and claims.csv over all of them.

A study's folder holds its figure (SVG and PNG), the figure's data (CSV) and study.json, which says
how it was made and what its claims are. It is written whole or not at all, so that a run that was
cut off goes on where it stopped; one made by other code or with other settings is made anew.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import io
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.csv

from hexveil.base import atomic_files
from hexveil.base.errors import InputError, StorageError
from hexveil.simulation.own_cells import NOT_COVERED, STAMP
from hexveil_research.papers import claim_tally
from hexveil_research.papers.study import (
    ALTERATIONS,
    Basis,
    Claim,
    Outcome,
    Reading,
    Setting,
    Study,
)

WORDS = "study.json"
CLAIMS = "claims.csv"
COLUMNS = (
    *("paper", "place", "claim", "reading", "measured", "verdict"),
    *("kind", "basis", "restates", "study"),
)
"""Of claims.csv."""
PACKAGE = Path(__file__).resolve().parents[2]


def check(out: Path) -> None:
    """Refuse early a folder that cannot be written, or that belongs to a release."""
    check_folder(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        atomic_files.write(out / ".hexveil", b"").unlink()
    except OSError as error:
        raise InputError(
            f"the folder {out} cannot be written ({atomic_files.reason(error)}); name another "
            f"(--out)."
        ) from None


def place(out: Path, study: Study) -> Path:
    """Return a study's folder.

    Examples
    --------
    >>> from hexveil_research.papers.study import Outcome, Study
    >>> place(Path("out"), Study("iot:fig3", "", "", lambda _: Outcome())).name
    'iot-fig3'
    """
    return out / study.name.replace(":", "-")


def made_with(study: Study, setting: Setting) -> dict[str, Any]:
    """Return all that a study's result depends on."""
    inputs: dict[str, Any] = {"study": study.name, "code": code()}
    if study.draws:
        inputs |= {"trials": setting.trials, "seed": setting.seed}
    return inputs | alterations(setting)


def alterations(setting: Setting) -> dict[str, Any]:
    """Return in which public facts a setting differs from the papers'."""
    altered = {
        name: str(getattr(setting, name))
        for name in ALTERATIONS
        if name != "data" and getattr(setting, name) is not None
    }
    if setting.data is None:
        return altered
    data = setting.data
    facts = data.name, data.occupancy.fingerprint, data.number, str(data.bounds)
    return altered | {"data": [str(fact) for fact in facts]}


@functools.cache
def code() -> str:
    """Return a digest of the package's source files."""
    digest = hashlib.sha256()
    for file in sorted(PACKAGE.rglob("*.py")):
        # Paths count as well as contents, or moving a module would go unnoticed.
        digest.update(f"{file.relative_to(PACKAGE).as_posix()}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def read_summary(folder: Path) -> dict[str, Any]:
    """Return the contents of a study's summary file; empty without such a folder."""
    try:
        summary = json.loads((folder / WORDS).read_text("utf-8"))
    # A damaged summary counts as none: the study is made again.
    except (OSError, ValueError):
        return {}
    return summary if isinstance(summary, dict) and "claims" in summary else {}


def is_made(out: Path, study: Study, setting: Setting) -> bool:
    """Return whether a study has been made by this code with these settings."""
    # Whether own values are the same as before cannot be told without writing a trace of them.
    if setting.data is not None and setting.data.means is not None:
        return False
    return read_summary(place(out, study)).get("made_with") == made_with(study, setting)


def write(
    out: Path, study: Study, setting: Setting, outcome: Outcome, images: dict[str, bytes]
) -> Path:
    """Write a study's folder in place of an older one and return it.

    Raises
    ------
    InputError
        If a folder of that name holds something else.
    StorageError
        If it cannot be written.
    """
    folder, private = place(out, study), study.is_private(setting)
    name = folder.name
    stamp = f"{STAMP} {NOT_COVERED}"
    words = ({"private": stamp} if private else {}) | {
        "title": study.title,
        "place": study.place,
        "made_with": made_with(study, setting),
        "axes": axes(outcome),
        "claims": [
            dataclasses.asdict(claim) | {"verdict": claim.verdict} for claim in outcome.claims
        ],
    }
    if folder.exists() and not read_summary(folder):
        raise InputError(f"{folder} is not a study's folder; move it, or name another (--out).")
    try:
        # Interrupted between these two lines, the folder is missing and the next run makes it anew.
        shutil.rmtree(folder, ignore_errors=True)
        with atomic_files.folder(folder) as temporary:
            text = json.dumps(words, indent=2, ensure_ascii=False)
            (temporary / WORDS).write_text(text + "\n", "utf-8")
            files = {f"{name}.{kind}": image for kind, image in images.items()}
            if outcome.panels:
                files[f"{name}.csv"] = (f"# {stamp}\n".encode() if private else b"") + _csv(outcome)
            write_files(temporary, files, private=private)
            if private:
                temporary.chmod(0o700)
                (temporary / WORDS).chmod(0o600)
    except OSError as error:
        raise StorageError(f"{folder} cannot be written ({atomic_files.reason(error)}).") from None
    return folder


def axes(outcome: Outcome) -> dict[str, dict[str, Any]]:
    """Return labels, scales and looks of a figure's panels, by their titles."""
    return {
        panel.title: {
            "x_label": panel.x_label,
            "y_label": panel.y_label,
            "log_x": panel.log_x,
            "log_y": panel.log_y,
            "ends": panel.ends,
            "looks": {line.name: line.look for line in panel.lines if line.look != "line"},
        }
        for panel in outcome.panels
    }


def _csv(outcome: Outcome) -> bytes:
    text = io.BytesIO()
    pa.csv.write_csv(data(outcome), text)
    return text.getvalue()


def data(outcome: Outcome) -> pa.Table:
    """Return a figure's data, a row per point: panel, line, source, x, y, low, high."""
    rows = [
        {
            "panel": panel.title,
            "line": line.name,
            "whose": line.whose,
            "x": x,
            "y": y,
            "low": None if line.low is None else float(line.low[i]),
            "high": None if line.high is None else float(line.high[i]),
        }
        for panel in outcome.panels
        for line in panel.lines
        for i, (x, y) in enumerate(zip(line.x.tolist(), line.y.tolist(), strict=True))
    ]
    return pa.Table.from_pylist(rows, schema=DATA)


DATA = pa.schema(
    [(name, pa.string()) for name in ("panel", "line", "whose")]
    + [(name, pa.float64()) for name in ("x", "y", "low", "high")]
)


def claims(out: Path, study: Study) -> tuple[Claim, ...]:
    """Return the claims that a study's folder holds."""
    fields = {field.name for field in dataclasses.fields(Claim)}
    entries = read_summary(place(out, study)).get("claims", [])
    # The file also states the verdict, which is computed and no field of a claim.
    return tuple(Claim(**{k: v for k, v in entry.items() if k in fields}) for entry in entries)


def claim_rows(out: Path, study: Study) -> list[dict[str, str]]:
    """Return a row of `COLUMNS` for each claim that a study's folder holds."""
    return [
        {
            "paper": claim.paper,
            "place": claim.place,
            "claim": claim.says,
            "reading": claim.reading,
            "measured": claim.measured,
            "verdict": claim.verdict,
            "kind": claim_tally.kind(claim),
            "basis": claim.basis,
            "restates": claim.restates,
            "study": study.name,
        }
        for claim in claims(out, study)
    ]


def claim_of(row: Mapping[str, str]) -> Claim:
    """Return the claim of a row."""
    verdict = row["verdict"]
    return Claim(
        row["paper"],
        row["place"],
        row["claim"],
        row["measured"],
        {"holds": True, "fails": False}.get(verdict),
        cast("Reading", row["reading"]),
        cast("Basis", row["basis"]),
        row["restates"],
        within_noise=verdict == "undecided",
    )


def claims_csv(rows: Sequence[Mapping[str, str]]) -> bytes:
    """Return rows of claims as CSV."""
    table = pa.Table.from_pylist(
        list(rows), schema=pa.schema([(name, pa.string()) for name in COLUMNS])
    )
    text = io.BytesIO()
    pa.csv.write_csv(table, text)
    return text.getvalue()


def write_claims(out: Path, studies: Sequence[Study]) -> Path:
    """Write claims.csv: every claim of every study that the folder holds."""
    text = claims_csv([row for study in studies for row in claim_rows(out, study)])
    try:
        return atomic_files.write(out / CLAIMS, text)
    except OSError as error:
        raise StorageError(
            f"{out / CLAIMS} cannot be written ({atomic_files.reason(error)})."
        ) from None


def check_folder(folder: str | Path) -> None:
    """Raise InputError if a folder is a release's, stands anywhere inside one, or is a file.

    A release folder is one that holds a manifest.json of a release. One that cannot be read is
    taken for such.
    """
    if Path(folder).is_file():
        raise InputError(f"{folder} is a file; name a folder.")
    for place in (Path(folder).resolve(), *Path(folder).resolve().parents):
        if _is_release(place):
            raise InputError(
                f"{folder} lies in the release folder {place.name}, which is published and never "
                "changes; name a folder outside it."
            )


def _is_release(folder: Path) -> bool:
    try:
        manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return False
    # A manifest that cannot be read may be a release's: writing beside it is not risked.
    except (OSError, ValueError):
        return True
    return isinstance(manifest, dict) and {"guarantee", "schema_version"} <= manifest.keys()


def write_files(folder: str | Path, files: Mapping[str, bytes], *, private: bool) -> list[Path]:
    """Write files to a folder, which is made if need be, and return their paths.

    Each stands under a temporary name until it is whole; one of the same name is replaced.
    Private files are named PRIVATE-..., and they and a folder made for them are their owner's
    alone.

    Raises
    ------
    InputError
        If the folder lies in a release folder, or is a file.
    StorageError
        If the folder or a file cannot be written.
    """
    place = Path(folder)
    check_folder(place)
    # The process's umask still applies to files that are not private.
    mode = 0o600 if private else 0o666
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o777)
        return [
            atomic_files.write(place / (f"PRIVATE-{name}" if private else name), content, mode=mode)
            for name, content in files.items()
        ]
    except OSError as error:
        why = atomic_files.reason(error)
        raise StorageError(f"{place} cannot be written ({why}); name another folder.") from None
