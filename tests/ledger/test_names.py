"""Names of accounts: a slip in a name opens no fresh budget, and a new account says that it is."""

import pytest

import hexveil as hv
from hexveil.base.errors import InputError


def opened(tmp_path, dataset, **more):
    """Open the ledger of a test for a data set."""
    return hv.Ledger(tmp_path / "ledger.sqlite", dataset=dataset, budget=2, **more)


@pytest.mark.parametrize("name", ["Buses", "BUSES", "\uff22uses", "bu\u017fes"])
def test_a_name_that_looks_like_another_is_refused_unless_it_is_confirmed(name, tmp_path):
    """It would open a fresh budget beside a spent one."""
    opened(tmp_path, "buses")
    with pytest.raises(InputError, match=r"knows 'buses'.*accept_similar_name = true"):
        opened(tmp_path, name)
    assert opened(tmp_path, name, accept_similar_name=True).opened
    assert not opened(tmp_path, name).opened
    assert opened(tmp_path, "trams").opened


@pytest.mark.parametrize("name", [" buses", "buses ", "buses\n", "\u00a0buses"])
def test_a_name_has_no_spaces_at_its_ends(name, tmp_path):
    """Nobody sees them; of an account that is shared neither."""
    for arguments in ({"dataset": name}, {"dataset": "buses", "account": name}):
        with pytest.raises(InputError, match="begins or ends with a space; name 'buses'"):
            opened(tmp_path, **arguments)


def test_data_sets_of_one_account_may_have_similar_names(tmp_path):
    """No budget is opened for the second: it joins the first one's account by its name."""
    assert opened(tmp_path, "buses", account="city").opened
    assert not opened(tmp_path, "Buses", account="city").opened
    with pytest.raises(InputError, match="knows 'city'"):
        opened(tmp_path, "trams", account="City")
    with pytest.raises(InputError, match=r"knows '[bB]uses'"):
        opened(tmp_path, "BUSES")


def test_a_new_account_says_that_it_is_new(tmp_path):
    """Once; a second opening of it finds it there."""
    assert opened(tmp_path, "buses").opened
    again = opened(tmp_path, "buses")
    assert (again.opened, again.account.name) == (False, "buses")
