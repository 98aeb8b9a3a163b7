"""`hexveil demo`: a private map, from records to report, in a new folder.

What is shown, and the choices made for it: `demos/flights.py` (real), `demos/city.py` (invented).
"""

from __future__ import annotations

import contextlib
import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hexveil.cli import bar, findings, release, steps, words
from hexveil.cli.options import AsJson  # noqa: TC001  the parser reads annotations
from hexveil.cli.plan import price_lines
from hexveil.config import load
from hexveil.errors import InputError, StorageError
from hexveil.ledger import Ledger

if TYPE_CHECKING:
    from hexveil.cli.demos.show import Show, Where
    from hexveil.config import Run

InCity = Annotated[
    bool, typer.Option("--city", help="A month of an invented city's buses, not real flights.")
]


def demo(*, city: InCity = False, as_json: AsJson = False) -> None:
    """Make a private map of real flights in a new folder under ./demo-out."""
    if city:
        from hexveil.cli.demos.city import SHOW  # noqa: PLC0415  only one of them is shown
    else:
        from hexveil.cli.demos.flights import SHOW  # noqa: PLC0415
    run, where = prepared(SHOW, Path("demo-out"))
    with contextlib.chdir(run.folder):
        folder, account = release.destination(run)
        dataset = steps.read(run)
        made, _ = release.supported(run, dataset)
        book = Ledger(**account)
        published = release.publish(run, dataset, made, book)
        written = release.write(run, published, folder)
    found = findings.lines(published.to_arrow(), where, run.values.value_unit or "")
    if as_json:
        text = release.release_json(run, made, published, written, book.spend())
        text |= {"found": found}
        typer.echo(json.dumps(text, indent=2))
        return
    about = words.wrapped(*SHOW.about)
    spent = words.wrapped("Ledger", words.spent(book.spend()))
    lines = [*about, *price_lines(made, dataset.public), *found, *spent]
    typer.echo("\n".join([*lines, *files_lines(run, SHOW, written)]))


def prepared(show: Show, parent: Path) -> tuple[Run, Where]:
    """Return the run, its records and run file written to a new folder, and how cells are named."""
    folder = new_folder(parent, show.name)
    try:
        with bar.shown("Preparing records") as tell:
            where = show.write(folder, tell)
        (folder / f"{show.name}.toml").write_text(show.run, "utf-8")
    except InputError:
        _leave(folder)
        raise
    except OSError as error:
        raise StorageError(f"the demo cannot write to {folder}: {error.strerror}.") from None
    return load(str(folder / f"{show.name}.toml")), where


def new_folder(parent: Path, name: str) -> Path:
    """Return the first of parent/name-1, -2, ... that is new, made."""
    for number in itertools.count(1):
        folder = parent / f"{name}-{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            if not parent.is_dir():
                break
        except OSError:
            break
        else:
            return folder
    raise InputError(f"the folder {parent} cannot be made here; go where you may write.")


def _leave(folder: Path) -> None:
    """Remove a new folder, and the one above if it is empty too."""
    with contextlib.suppress(OSError):
        folder.rmdir()
        folder.parent.rmdir()


def files_lines(run: Run, show: Show, written: list[Path]) -> list[str]:
    """Return where the map, the other files and the run are."""
    names = ", ".join(path.name for path in written)
    return [
        *words.wrapped("Written", f"{steps.reached(run, written[0].parent)}: {names}"),
        *words.wrapped("The run", f"{run.folder}: {show.name}.toml, {show.inputs}"),
        *words.wrapped("Open the map", str(steps.reached(run, written[0].parent / "report.html"))),
    ]
