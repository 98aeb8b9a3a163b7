"""Optional inputs of a release folder, from a run: context, key, page, tiles, facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexveil.base.optional_packages import require_package
from hexveil.publishing import signing
from hexveil.publishing.catalogue.holder_statements import Catalogue
from hexveil.publishing.folder import PageOptions

if TYPE_CHECKING:
    from hexveil.config import Run
    from hexveil.publishing.signing import SigningKey


def signer_of(run: Run) -> SigningKey | None:
    """Return the signing key of the run, if any; refuse an unusable one."""
    return None if run.release.sign is None else signing.read_signing_key(run.release.sign)


def folder_extras(run: Run, path: str = "") -> dict[str, Any]:
    """Return the optional inputs of a folder, checked: context, key, page, tiles, facts.

    Parameters
    ----------
    run : Run
    path : str, optional
        Where the folder is, below the address that the run states.
    """
    signer_of(run)
    if run.release.tiles:
        require_package("pyogrio", "tiles")
    names = ("context", "sign", "tiles", "title", "subtitle", "hide_geography")
    # Refuses a title that the folder would refuse after the budget is spent.
    PageOptions(run.release.title or "", run.release.subtitle or "")
    extras = {name: getattr(run.release, name) for name in names}
    extras["catalogue"] = catalogue_of(run, path)
    return {name: extra for name, extra in extras.items() if extra is not None}


def catalogue_of(run: Run, path: str = "") -> Catalogue | None:
    """Return the facts that the holder states for a folder; None without any."""
    facts = run.catalogue.explicit_fields()
    if not facts:
        return None
    catalogue = Catalogue(**facts)
    return catalogue.below(path) if path else catalogue
