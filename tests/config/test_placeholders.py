"""Fields that are not filled in yet."""

import pytest

from hexveil.base.errors import InputError
from hexveil.config import load, placeholders


def test_gaps_are_named_with_their_sections(tmp_path):
    """All gaps are named in one sentence, by file and section."""
    file = tmp_path / "run.toml"
    file.write_text('[columns]\nuser = "FILL IN"\nvalue = "FILL IN"\n')
    with pytest.raises(InputError) as caught:
        load(str(file))
    assert str(caught.value) == (
        "run.toml: user (in [columns]), value (in [columns]) are not filled in yet: replace "
        "'FILL IN' as the comment above it says."
    )


def test_what_holds_no_gap_passes():
    """Other values, and what is no section, are left to the checks of fields."""
    whole = {"source": "FILL IN", "values": {"bounds": [0, 65]}, "plan": 3}
    assert placeholders.refuse(whole, "run.toml") is None
