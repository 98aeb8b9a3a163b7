"""One spelling of a mechanism, or of a prior: equal requests have equal text."""

import dataclasses
from typing import Any, cast

import numpy as np

from hexveil.base.rational import Number, decimal_text, items_of, to_fraction


def spelled(owner: Any) -> Any:  # noqa: ANN401  a mechanism or a prior
    """Return a mechanism, or a prior, with each argument in one of its spellings."""
    fields = (field for field in dataclasses.fields(owner) if field.init)
    return dataclasses.replace(
        owner, **{f.name: _argument(getattr(owner, f.name), f) for f in fields}
    )


def _argument(value: object, field: dataclasses.Field[Any]) -> object:
    """Return numbers as its default or type has them, lists as tuples."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return tuple(_argument(item, field) for item in items_of(value))
    if dataclasses.is_dataclass(value):
        return spelled(value)
    # An annotation is its text where a module asks for that.
    if field.type in ("Number", Number):
        number = to_fraction(cast("Number", value), field.name)
        return decimal_text(number) if isinstance(field.default, str) else float(number)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return float(cast("int", value)) if is_whole and "float" in str(field.type) else value
