"""The commands of `hexveil ledger` with their options; the bodies: `commands/ledger_command.py`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hexveil.cli.options import Declaration


@dataclass(frozen=True, kw_only=True)
class LedgerDeclaration(Declaration):
    """Options of a command on a ledger."""

    home = "hexveil.cli.commands.ledger_command"

    location: Annotated[
        str,
        typer.Argument(help="A ledger, or a run file (.toml) that names one.", metavar="LEDGER"),
    ]


@dataclass(frozen=True, kw_only=True)
class DatasetDeclaration(LedgerDeclaration):
    """Options of a command on the account of a data set."""

    dataset: Annotated[
        str | None,
        typer.Option(help="Name of the data set. Default: the run file's.", metavar="TEXT"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class KeyedDeclaration(DatasetDeclaration):
    """Options of a command that opens a ledger with its key."""

    key: Annotated[
        str | None,
        typer.Option(help="Key file. Default: beside the ledger file.", metavar="FILE"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class LedgerInitOptions(KeyedDeclaration):
    """Open the account of a data set; creates the ledger and its key if necessary."""

    example = "hexveil ledger init ledger.sqlite --dataset buses --budget 5"

    budget: Annotated[
        str | None, typer.Option(help="Largest loss of a unit, in epsilon.", metavar="NUMBER")
    ] = None
    window: Annotated[
        str | None, typer.Option(help='"lifetime", "month" or "day".', metavar="TEXT")
    ] = None
    account: Annotated[
        str | None,
        typer.Option(help="Account whose budget several data sets share.", metavar="TEXT"),
    ] = None
    delta: Annotated[
        str | None,
        typer.Option(help="Promise (epsilon, delta) at this delta, for good.", metavar="NUMBER"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class LedgerShowOptions(DatasetDeclaration):
    """Show the spent and the remaining budget, of all accounts or of one data set.

    For this window, and for the lifetime of an owner present throughout.
    """

    example = "hexveil ledger show ledger.sqlite --dataset buses"


@dataclass(frozen=True, kw_only=True)
class LedgerHistoryOptions(DatasetDeclaration):
    """List the events, oldest first; public metadata only."""

    example = "hexveil ledger history ledger.sqlite --limit 20"

    limit: Annotated[
        int, typer.Option(help="Number of latest events.", metavar="NUMBER", min=1)
    ] = 100


@dataclass(frozen=True, kw_only=True)
class LedgerSetBudgetOptions(KeyedDeclaration):
    """Change a budget; the old one and the new one stay on record."""

    example = "hexveil ledger set-budget ledger.sqlite 8 --dataset buses"

    budget: Annotated[str, typer.Argument(help="New budget, in epsilon.", metavar="NUMBER")]


@dataclass(frozen=True, kw_only=True)
class LedgerVerifyOptions(LedgerDeclaration):
    """Check that the ledger is consistent: its hash chain, its events, every sum.

    With a receipt, also that the ledger is not an older copy. Exit 0 if consistent, 2 if not.
    """

    example = "hexveil ledger verify ledger.sqlite --receipt map"

    receipt: Annotated[
        list[Path] | None,
        typer.Option(
            help="Release folder whose entry must be in the ledger; repeatable.", metavar="FOLDER"
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class LedgerResolveOptions(KeyedDeclaration):
    """List unfinished releases; give back or abandon one.

    Running a release again finishes it. The first characters of a request are enough.
    """

    example = "hexveil ledger resolve ledger.sqlite"

    give_back: Annotated[
        str | None, typer.Option(help="Reserved request to give back.", metavar="REQUEST")
    ] = None
    abandon: Annotated[
        str | None,
        typer.Option(help="Marked request to abandon: its draw began.", metavar="REQUEST"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class LedgerKeygenOptions(Declaration):
    """Create a key pair for signing release folders.

    A run signs with the private key that sign (in [release]) names. Recipients check a folder with
    hexveil verify --key FILE.pub.
    """

    example = "hexveil ledger keygen signing.pem"

    home = LedgerDeclaration.home

    file: Annotated[Path, typer.Argument(help="New file for the private key.", metavar="FILE")]


@dataclass(frozen=True, kw_only=True)
class LedgerExportOptions(LedgerDeclaration):
    """Write every event to a file, without the losses of single units."""

    example = "hexveil ledger export ledger.sqlite events.csv"

    file: Annotated[Path, typer.Argument(help="New file: .json, .csv or .parquet.", metavar="FILE")]
    numbers: Annotated[bool, typer.Option("--numbers", help="Include the published numbers.")] = (
        False
    )
