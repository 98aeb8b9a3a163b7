"""`hexveil demo`: a private map, from records to report, in a new folder.

The subjects and their settings: `cli/demos/`.
"""

from __future__ import annotations

import contextlib
import itertools
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hexveil.base.errors import InputError, StorageError
from hexveil.base.work_share import tell_share
from hexveil.cli import shared_steps
from hexveil.cli.commands import release_command
from hexveil.cli.demos import CITY_SHOW, FLIGHTS_SHOW, Show, summary_lines
from hexveil.cli.output import formatting
from hexveil.cli.planned_release import plan_release, write
from hexveil.config import arguments, load
from hexveil.records.progress import show_progress

if TYPE_CHECKING:
    from hexveil.cli import declarations
    from hexveil.cli.demos import Where
    from hexveil.config import Run


PREPARING = "Preparing records"
"""Name of this work, of which parts are told."""


def demo(options: declarations.DemoOptions) -> None:
    """Create a private map of real flights in a new folder under ./demo-out."""
    show = CITY_SHOW if options.city else FLIGHTS_SHOW
    run, place_name = prepare(show, Path("demo-out"))
    with contextlib.chdir(run.folder):
        folder, account = release_command.destination(run)
        planned = plan_release(run)
        published, book = planned.publish(account, None)
        written = write(run, published, folder)
    findings = summary_lines(published.to_arrow(), place_name, arguments.value_unit_of(run))
    formatting.show(
        lambda: [
            *formatting.wrapped(*show.about),
            *planned.price_lines(),
            *findings,
            *formatting.warning_lines(published.warnings),
            *formatting.wrapped("Ledger", formatting.spent(book.spend())),
            *files_lines(run, show, written),
        ],
        lambda: (
            release_command.release_json(planned, published, written, book) | {"found": findings}
        ),
        as_json=options.as_json,
    )


def prepare(show: Show, parent: Path) -> tuple[Run, Where]:
    """Write records and run file to a new folder; return the run and the naming of cells."""
    folder = new_folder(parent, show.name)
    try:
        with show_progress(PREPARING):
            place_name = show.write(folder, partial(tell_share, PREPARING))
        (folder / f"{show.name}.toml").write_text(show.run, "utf-8")
    except InputError:
        # An empty folder would look like an unfinished demo.
        _leave(folder)
        raise
    except OSError as error:
        raise StorageError(f"the demo cannot write to {folder}: {error.strerror}.") from None
    return load(str(folder / f"{show.name}.toml")), place_name


def new_folder(parent: Path, name: str) -> Path:
    """Create and return the first new folder among parent/name-1, -2, ..."""
    # Creating is the test: two demos at once must not get the same folder.
    for number in itertools.count(1):
        folder = parent / f"{name}-{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            # The parent itself is a file: no number would help.
            if not parent.is_dir():
                break
        except OSError:
            break
        else:
            return folder
    raise InputError(
        f"the folder {parent} cannot be created here; change to a folder where you may write."
    )


def _leave(folder: Path) -> None:
    """Remove a new folder, and the one above if it is empty too."""
    with contextlib.suppress(OSError):
        folder.rmdir()
        folder.parent.rmdir()


def files_lines(run: Run, show: Show, written: list[Path]) -> list[str]:
    """Return the places of the map, the other files and the run file."""
    names = ", ".join(path.name for path in written)
    return [
        *formatting.wrapped(
            "Written", f"{shared_steps.resolve_path(run, written[0].parent)}: {names}"
        ),
        *formatting.wrapped("Run file", f"{run.folder}: {show.name}.toml, {show.inputs}"),
        *formatting.wrapped(
            "Open the map", str(shared_steps.resolve_path(run, written[0].parent / "report.html"))
        ),
    ]
