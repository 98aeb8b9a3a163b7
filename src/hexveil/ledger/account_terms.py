"""Terms of an account as they are stated when a ledger is opened: pinned once, checked later."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import sqlalchemy as sa

from hexveil.accounting.gaussian_composition import to_delta
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, decimal_text, to_positive_fraction
from hexveil.ledger import accounts, events
from hexveil.ledger.accounts import Account
from hexveil.ledger.promises import PURE, check_same_promise
from hexveil.ledger.storage.databases import MEMORY, describe_address
from hexveil.ledger.unit_losses import Key, make_key, read_key


@dataclass(frozen=True)
class AccountTerms:
    """Stated terms of a data set's account; None where the pinned one holds.

    Attributes
    ----------
    dataset : str
    budget : Fraction or None
    window : str or None
    name : str or None
        Of the account; of a new one the data set's, by default.
    delta : Fraction or None
    accept_similar_name : bool
        Whether an account may be opened beside one whose name differs in spelling alone.
    """

    dataset: str
    budget: Fraction | None
    window: str | None
    name: str | None
    delta: Fraction | None
    accept_similar_name: bool = False


def account_terms(
    dataset: str,
    budget: Number | None,
    window: str | None,
    name: str | None,
    delta: Number | None,
    *,
    accept_similar_name: bool = False,
) -> AccountTerms:
    """Return the terms, checked; see `Ledger` for the parameters.

    Raises
    ------
    InputError
        On a name that is empty, a budget that is not positive, an unknown window, or a δ that is
        no probability.
    """
    for field, text in (("dataset", dataset), ("account", dataset if name is None else name)):
        if not (isinstance(text, str) and text.strip()):
            raise InputError(f"{field} must be a name, under which releases add up.")
    return AccountTerms(
        dataset,
        None if budget is None else to_positive_fraction(budget, "budget"),
        None if window is None else events.check_window(window),
        name,
        None if delta is None else to_delta(delta),
        accept_similar_name,
    )


def open_with_terms(
    connection: sa.Connection, existing: Account | None, terms: AccountTerms, key: Key
) -> Account:
    """Return the data set's account, opened if the ledger does not know it yet.

    Raises
    ------
    InputError
        If the terms differ from the pinned ones, or a new account has no budget.
    """
    account = _open(connection, terms, key) if existing is None else existing
    _check_same(account, terms, key)
    return account


def _open(connection: sa.Connection, terms: AccountTerms, key: Key) -> Account:
    """Return the account of a data set that the ledger does not know yet."""
    name = terms.name or terms.dataset
    # Another data set may have opened the account before: then its budget is the shared one.
    shared = accounts.find_by_name(connection, name)
    _check_new_names(connection, terms, name, is_new=shared is None)
    if shared is None and terms.budget is None:
        raise InputError(
            f"the ledger does not know {terms.dataset!r} yet: name its budget, the largest "
            "total loss of one unit over all its releases, in epsilon."
        )
    account = shared or Account(
        name,
        "",
        terms.window or "lifetime",
        terms.budget or Fraction(0),
        key.fingerprint,
        delta=terms.delta or PURE,
    )
    accounts.check_key(account, key)
    return accounts.open_account(connection, account, terms.dataset)


def _check_new_names(
    connection: sa.Connection, terms: AccountTerms, name: str, *, is_new: bool
) -> None:
    """Refuse names that only look like those which the ledger knows, with budgets of their own."""
    for new in (terms.dataset, name):
        if new != new.strip():
            raise InputError(
                f"the name {new!r} begins or ends with a space; name {new.strip()!r} (dataset in "
                "[ledger], or --dataset)."
            )
    if not is_new or terms.accept_similar_name:
        return
    account_names = [*accounts.list_accounts(connection)]
    account_names += [
        account_name
        for _, names in accounts.list_accounts(connection).values()
        for account_name in names
    ]
    similar = next(
        (account_name for account_name in account_names if _folded(account_name) == _folded(name)),
        None,
    )
    if similar is not None:
        raise InputError(
            f"the ledger knows {similar!r}, and {name!r} would have a budget of its own beside it; "
            f"name {similar!r} (dataset in [ledger], or --dataset), or, if these are records of "
            "others, say so by accept_similar_name = true (in [ledger], or --set "
            "ledger.accept_similar_name=true)."
        )


def _folded(name: str) -> str:
    """Return a name without regard to capitals, forms of letters and spaces at its ends."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", folded).strip()


def _check_same(pinned: Account, terms: AccountTerms, key: Key) -> None:
    """Refuse terms that differ from the pinned ones."""
    accounts.check_key(pinned, key)
    if terms.name is not None and terms.name != pinned.name:
        raise InputError(
            f"{terms.dataset!r} spends from the account {pinned.name!r} of this ledger, and not "
            f"from {terms.name!r}; it cannot change."
        )
    if terms.delta is not None:
        check_same_promise(pinned.name, pinned.delta, terms.delta)
    if terms.budget is not None and terms.budget != pinned.budget:
        raise InputError(
            f"the ledger's budget of {pinned.name!r} is {decimal_text(pinned.budget)}, and not "
            f"{decimal_text(terms.budget)}; hexveil ledger set-budget changes it, and is on record."
        )
    if terms.window is not None and terms.window != pinned.window:
        raise InputError(
            f"the ledger's budget of {pinned.name!r} is for a {pinned.window}, and not for a "
            f"{terms.window}; that cannot change: begin a new account."
        )


def holder_key_file(engine: sa.Engine, url: str | Path, key: str | Path | None) -> Path | None:
    """Return the full path of the holder's key; None for a ledger in memory that has its own.

    Raises
    ------
    InputError
        If a server's ledger comes without one.
    """
    if key is not None:
        return Path(key).absolute()
    if str(url) == MEMORY:
        return None
    if engine.dialect.name != "sqlite":
        raise InputError(
            "a ledger on a server needs the file of the holder's key: key (in [ledger], or --set "
            "ledger.key)."
        )
    return Path(f"{describe_address(engine)}.key").absolute()


def holder_key(file: Path | None, *, new: bool) -> Key:
    """Return the holder's key; created if the ledger is new and has none."""
    if file is None:
        return Key(b"forgotten with its ledger")
    # Never a new key for a ledger with entries: under it all units would look new, and unspent.
    return make_key(file) if new and not file.exists() else read_key(file)
