"""The commands with their options: one declaration each, which loads no library.

Texts of the options: options.toml. The bodies: `commands/`, a file each.
"""

from pathlib import Path
from typing import Literal

from hexveil.cli.options import Declaration, RunDeclaration


class DemoOptions(Declaration):
    """Create a map of real flights, or of an invented city, in ./demo-out."""

    home = "hexveil.cli.demos"
    example = "hexveil demo --city"

    city: bool = False


class MapOptions(RunDeclaration):
    """Make a map of records: recognise, ask, propose grids, release, open the page.

    Asks up to five questions about the records (six if day and month of times cannot be told
    apart), which map you want and for which days; writes a run file; asks before it releases. With
    --yes nothing is asked: give the options that are open. Nothing is spent before the last answer.
    """

    example = "hexveil map records.csv"

    yes: bool = False
    trust_header: bool = False
    browser: bool = True


class InspectOptions(RunDeclaration):
    """Show the grids that a fleet supports, and three runs; --init drafts a run file.

    No value is shown. Without an epsilon, grids are compared at 1. A draft:
    hexveil inspect records.parquet --init > run.toml
    """

    example = "hexveil inspect buses.toml --epsilon 1"

    init: bool = False
    trust_header: bool = False
    sql: str | None = None


class PlanOptions(RunDeclaration):
    """Show the cost and expected error of a release; nothing is spent."""

    example = "hexveil plan buses.toml --resolution 5 --epsilon 3"

    compare: bool = False
    save: Path | None = None
    days: int | None = None
    day_error: float | None = None


class ReleaseOptions(RunDeclaration):
    """Publish a map: book the cost, draw noise once, write the folder."""

    example = "hexveil release buses.toml --out map"

    from_plan: Path | None = None
    dry_run: bool = False


class PublishOptions(RunDeclaration):
    """Publish the maps of local days, each in a folder below `out`.

    Repeating a day costs nothing, and continues an unfinished one. `latest.json` names the
    official release.
    """

    example = "hexveil publish buses.toml --date 2026-11-20 --out maps"

    date: str | None = None
    first_day: str | None = None
    last_day: str | None = None
    revise: bool = False
    dry_run: bool = False


class StudioOptions(Declaration):
    """Make a map in a browser: choose a file, answer questions, see maps, confirm once.

    Serves a page on this machine alone, for the records in a folder. Nothing is spent before the
    confirmation.
    """

    home = "hexveil.cli.studio.server"
    example = "hexveil studio records"

    folder: Path = Path()
    browser: bool = True


class VerifyOptions(Declaration):
    """Check a release folder: its files, tables, losses and signature.

    Of an archive of `hexveil publish`, check each current release and the catalogue. Exit 0 if the
    folder is unchanged, 2 if not. Needs no ledger and no records.
    """

    home = "hexveil.cli.commands.folder_command"
    example = "hexveil verify map"

    folder: Path
    key: Path | None = None


class DossierOptions(Declaration):
    """Write the document that a privacy officer completes and signs.

    It is derived from a release folder, which is verified: public metadata, and fields to complete.
    It draws no legal conclusion.
    """

    home = "hexveil.cli.commands.folder_command"
    example = "hexveil dossier map > dossier.md"

    folder: Path


class CoarserOptions(Declaration):
    """Options of a coarser grid, and of the folder and the page of derived numbers."""

    home = "hexveil.cli.commands.folder_command"

    out: Path | None = None
    context: Path | None = None
    resolution: str | None = None
    timeslot: str | None = None
    columns: str | None = None
    value: str | None = None
    statistic: str | None = None
    key: Path | None = None


class CompareOptions(CoarserOptions):
    """Compare two release folders, hexagon by hexagon; nothing is spent.

    Noisy numbers suffice: neither records nor a ledger are needed. With --resolution, --timeslot or
    --columns both are rolled up first.
    """

    example = "hexveil compare monday tuesday --out changes"

    before: Path
    after: Path
    false_discovery_rate: float = 0.05


class RollUpOptions(CoarserOptions):
    """Average a release over larger hexagons, or an archive over days; nothing is spent.

    Noisy numbers suffice: neither records nor a ledger are needed. Cells are weighted by their
    public counts of records; under private presence by noisy weights, and numbers of units add up.
    """

    example = "hexveil roll-up maps --from 2026-11-01 --to 2026-11-30 --by weekday"

    folder: Path
    first_day: str | None = None
    last_day: str | None = None
    by: Literal["all", "weekend", "weekday"] = "all"


class HelpOptions(Declaration):
    """Explain a command, or list the fields of a run file.

    A topic is a command, "fields", or a section of the run file such as "fields plan".
    """

    home = "hexveil.cli.app"
    example = "hexveil help fields plan"

    topic: tuple[str, ...] = ()


class LedgerDeclaration(Declaration):
    """Options of a command on a ledger."""

    home = "hexveil.cli.commands.ledger_command"

    location: str


class DatasetDeclaration(LedgerDeclaration):
    """Options of a command on the account of a data set."""

    dataset: str | None = None


class KeyedDeclaration(DatasetDeclaration):
    """Options of a command that opens a ledger with its key."""

    key: str | None = None


class LedgerInitOptions(KeyedDeclaration):
    """Open the account of a data set; creates the ledger and its key if necessary."""

    example = "hexveil ledger init ledger.sqlite --dataset buses --budget 5"

    budget: str | None = None
    window: str | None = None
    account: str | None = None
    delta: str | None = None


class LedgerShowOptions(DatasetDeclaration):
    """Show the spent and the remaining budget, of all accounts or of one data set.

    For this window, and for the lifetime of an owner present throughout.
    """

    example = "hexveil ledger show ledger.sqlite --dataset buses"


class LedgerHistoryOptions(DatasetDeclaration):
    """List the events, oldest first; public metadata only."""

    example = "hexveil ledger history ledger.sqlite --limit 20"

    limit: int = 100


class LedgerSetBudgetOptions(KeyedDeclaration):
    """Change a budget; the old one and the new one stay on record."""

    example = "hexveil ledger set-budget ledger.sqlite 8 --dataset buses"

    budget: str


class LedgerVerifyOptions(LedgerDeclaration):
    """Check that the ledger is consistent: its hash chain, its events, every sum.

    With a receipt, also that the ledger is not an older copy. Exit 0 if consistent, 2 if not.
    """

    example = "hexveil ledger verify ledger.sqlite --receipt map"

    receipt: tuple[Path, ...] = ()


class LedgerResolveOptions(KeyedDeclaration):
    """List unfinished releases; give back or abandon one.

    Running a release again finishes it. The first characters of a request are enough.
    """

    example = "hexveil ledger resolve ledger.sqlite"

    give_back: str | None = None
    abandon: str | None = None


class LedgerKeygenOptions(Declaration):
    """Create a key pair for signing release folders.

    A run signs with the private key that sign (in [release]) names. Recipients check a folder with
    hexveil verify --key FILE.pub.
    """

    home = LedgerDeclaration.home
    example = "hexveil ledger keygen signing.pem"

    file: Path
