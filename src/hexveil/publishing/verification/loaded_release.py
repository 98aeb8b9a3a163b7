"""Release folders read back into memory, by the checks of `verify`."""

from __future__ import annotations

from pathlib import Path

from hexveil.publishing.components import epsilon_spent
from hexveil.publishing.memory.stored_day import FILE, from_bytes, memory_of
from hexveil.publishing.published_numbers import Release
from hexveil.publishing.verification.verify import read_folder


def load(folder: str | Path, *, key: str | Path | None = None) -> Release:
    """Return the release in a folder, if the folder is as it was written.

    No ledger and no records are needed, and nothing is spent. The folder may come from anybody:
    it is checked as by `hv.verify`, and its table is the one that was checked. Without `key` it
    does not show who made it.

    Parameters
    ----------
    folder : str or Path
        As `Release.write` or `hexveil release` wrote it.
    key : str or Path, optional
        File of the holder's public key: then the folder must be signed with it.

    Returns
    -------
    Release
        With `replayed` true: its numbers are those of an earlier release.

    Raises
    ------
    InputError
        If there is no release in the folder, or if a file, a number, a statement or the signature
        is not as it was written; the message names each. Also if the key cannot be read.
    """
    check = read_folder(Path(folder), key=key)
    manifest = check.manifest
    memory = None
    if memory_of(manifest) is not None:
        memory = from_bytes((check.folder / FILE).read_bytes(), check.released.num_rows)
    return Release(check.released, manifest, epsilon_spent(manifest), replayed=True, memory=memory)
