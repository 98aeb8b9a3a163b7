"""Private side: plan, ledger, noise, release folder."""

from typing import TYPE_CHECKING

from hexveil.base.optional_packages import load_on_use

if TYPE_CHECKING:
    from hexveil.publishing.folder import check_writable
    from hexveil.publishing.pipeline import release
    from hexveil.publishing.published_numbers import Release

__all__ = ["Release", "check_writable", "release"]

# Commands that publish nothing use a module or two of this folder, and wait for no other.
__getattr__ = load_on_use(
    __name__, {"check_writable": "folder", "release": "pipeline", "Release": "published_numbers"}
)
