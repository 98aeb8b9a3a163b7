"""Private side: plan, ledger, noise, release folder."""

from hexveil.publishing.folder import check_writable
from hexveil.publishing.pipeline import release
from hexveil.publishing.published_numbers import Release

__all__ = ["Release", "check_writable", "release"]
