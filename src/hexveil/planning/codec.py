"""One codec: frozen data classes of plain values, exact numbers and arrays as words and arrays.

`Codec.pack` turns an object into JSON words, with exact numbers as text, and arrays by the path of
their field. `Codec.unpack` reads them by the annotations of the registered classes, so that a
stranger's word of another kind is refused by its place before any class sees it; what numbers
mean is checked by the classes themselves (`check`, and `from_saved` where it needs other fields).
A field that equals its default has no word: fields that are added later leave older words valid.
`pack_bytes` and `unpack_bytes` make one text of bytes of both.

Reading never runs code, and every number comes back as the double or the integer that it was.
"""

import dataclasses
import importlib
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any, Literal, Union

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.base.errors import InputError, StorageError
from hexveil.base.optional_packages import installed_version
from hexveil.base.rational import decimal_text, to_fraction

Path = tuple[str, ...]
Words = dict[str, Any]
Arrays = dict[str, np.ndarray[Any, Any]]

FORMAT = 3
"""Number of the layout of words and bytes; it changes whenever the meaning of a field changes."""
MAGIC = b"hexveil plan\n"
_SIZE_BYTES = 8
# Little-endian on every machine: the bytes of equal decisions are compared and hashed.
_DTYPES = {"f": "<f8", "i": "<i8", "u": "<u8", "b": "|b1"}
NAMES: dict[str, Any] = {}
"""Registered classes, and the names that their annotations use."""
STAND_INS: dict[type, Callable[[Any], Any]] = {}
"""Classes in whose place an object of another, registered class is written."""
INHERITED = ("occupancy", "facts")
"""Fields that are given to a whole plan are given to its parts."""
_MISSING = dataclasses.MISSING


def saved_plans() -> Any:  # noqa: ANN401  a module
    """Return the module that saves plans: it knows all kinds of parts, so that none imports it."""
    return importlib.import_module("hexveil.planning.saved_plans")


Coder = tuple[Callable[[Any, Path], Any], Callable[[Any, Path], Any]]
"""Packs and unpacks a class that is no data class of plain values: as one word."""
CODERS: dict[type, Coder] = {}
"""Registered classes that are written as text."""


@dataclass(frozen=True)
class Codec:
    """Writes and reads objects of registered classes.

    Attributes
    ----------
    arrays : dict of str to ndarray
        Where arrays go to and come from, by the path of their field.
    fixed : mapping of path to object
        Fields that are neither written nor read.
    """

    arrays: Arrays
    fixed: Mapping[Path, Any] = field(default_factory=dict)

    def pack(self, value: Any, path: Path = ()) -> Any:  # noqa: ANN401  any field
        """Return the words of a value; its arrays are added to `arrays`."""
        word: Any
        match value:
            case None | bool() | str() | float() | int():
                word = value
            case np.generic():
                word = value.item()
            case Fraction():
                word = decimal_text(value)
            case np.ndarray():
                self.arrays[".".join(path)] = value
                word = {"array": ".".join(path)}
            case tuple() | list():
                word = [self.pack(item, (*path, str(i))) for i, item in enumerate(value)]
            case Mapping():
                word = {name: self.pack(item, (*path, name)) for name, item in value.items()}
            case _:
                word = self._pack_object(value, path)
        return word

    def _pack_object(self, value: Any, path: Path) -> Any:  # noqa: ANN401  any registered class
        """Return the words of the fields that are neither given nor their defaults."""
        for kind, coder in CODERS.items():
            if path and isinstance(value, kind):
                return coder[0](value, path)
        value = STAND_INS[type(value)](value) if type(value) in STAND_INS else value
        name = word_of(type(value))
        if NAMES.get(name) is not type(value):
            raise TypeError(f"{'.'.join(path)}: {name} is no part of a plan")
        words: Words = {"is": name}
        for member, name in _fields(type(value)):
            inner, place = getattr(value, member.name), (*path, name)
            if self._fixed(place) is _MISSING and not _is_default(inner, member):
                words[name] = self.pack(inner, place)
        return words

    def _fixed(self, path: Path) -> Any:  # noqa: ANN401  any field
        """Return the given value of a field; of `INHERITED` ones that of the part around it."""
        *around, name = path
        if name not in INHERITED:
            return self.fixed.get(path, _MISSING)
        places = ((*around[:depth], name) for depth in range(len(around), -1, -1))
        return next((self.fixed[p] for p in places if p in self.fixed), _MISSING)

    def unpack(self, kind: Any, word: Any, path: Path = ()) -> Any:  # noqa: ANN401  any field
        """Return the value of a word by its type; InputError for one of another type."""
        is_union = typing.get_origin(kind) in (Union, types.UnionType)
        options = typing.get_args(kind) if is_union else (kind,)
        if word is None and type(None) in options:
            return None
        coders = [CODERS[option] for option in options if option in CODERS]
        is_object = isinstance(word, dict) and "is" in word
        if coders and path and not is_object:
            return coders[0][1](word, path)
        for option in options:
            resolved = self._unpack_one(option, word, path)
            if resolved is not _MISSING:
                return resolved
        raise InputError(f"{'.'.join(path)} is {str(word)[:40]!r}, which no plan has there.")

    def _unpack_one(self, kind: Any, word: Any, path: Path) -> Any:  # noqa: ANN401  any field
        """Return the value of a word by a type that is no union; MISSING if it does not fit."""
        origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
        if origin in (np.ndarray, NDArray):
            # Since NumPy 2.5 the name of arrays of a type is an alias of its own.
            dtype = arguments[0] if origin is NDArray else typing.get_args(arguments[1])[0]
            return self._unpack_array(dtype, word)
        if origin is tuple and isinstance(word, list):
            kinds = arguments[:1] * len(word) if arguments[-1] is Ellipsis else arguments
            if len(kinds) != len(word):
                return _MISSING
            pairs = enumerate(zip(kinds, word, strict=True))
            return tuple(self.unpack(inner, item, (*path, str(i))) for i, (inner, item) in pairs)
        if origin is Mapping and isinstance(word, dict):
            items = word.items()
            return {n: self.unpack(arguments[1], item, (*path, n)) for n, item in items}
        if isinstance(word, dict) and word.get("is") == word_of(kind):
            return self._unpack_fields(kind, word, path)
        return _plain(kind, word, path)

    def _unpack_array(self, dtype: type[np.generic], word: Any) -> Any:  # noqa: ANN401
        """Return an array of one dimension and of a type; MISSING if there is none."""
        named = isinstance(word, dict) and list(word) == ["array"]
        if not named or not isinstance(word["array"], str):
            return _MISSING
        array = self.arrays[word["array"]]
        return array if array.dtype == dtype and array.ndim == 1 else _MISSING

    def _unpack_fields(self, kind: type, word: Words, path: Path) -> Any:  # noqa: ANN401
        """Return the object of a class, as its own checks let it be."""
        hints, values, left = _hints(kind), {}, set(word) - {"is"}
        for member, name in _fields(kind):
            place = (*path, name)
            resolved = self._fixed(place)
            if resolved is _MISSING and name in word:
                left.discard(name)
                resolved = self.unpack(hints[member.name], word[name], place)
            if resolved is not _MISSING:
                values[member.name] = resolved
            elif member.default is _MISSING and member.default_factory is _MISSING:
                raise InputError(f"{'.'.join(place)} is missing.")
        if left:
            raise InputError(f"{'.'.join((*path, min(left)))} is no field of a saved plan.")
        made = getattr(kind, "from_saved", kind)(**values)
        if hasattr(kind, "check"):
            made.check()
        return made


def _plain(kind: Any, word: Any, path: Path) -> Any:  # noqa: ANN401  any field
    """Return the value of a word by a plain type; MISSING if it does not fit."""
    fits = type(word) is kind
    if typing.get_origin(kind) is Literal:
        fits = isinstance(word, str) and word in typing.get_args(kind)
    elif kind is float:
        fits = type(word) in (int, float) and not math.isnan(word)
        word = float(word) if fits else word
    elif kind is Fraction and isinstance(word, str):
        return to_fraction(word, ".".join(path))
    return word if fits else _MISSING


def word_of(kind: Any) -> str:  # noqa: ANN401  any annotation
    """Return the name by which objects of a class are saved: its own, or one that it states."""
    return str(getattr(kind, "saved_as", getattr(kind, "__name__", "")))


def _fields(kind: type) -> tuple[tuple[dataclasses.Field[Any], str], ...]:
    """Return the fields that an object is made of, with their names in words."""
    return tuple(
        (member, member.metadata.get("word", member.name))
        for member in dataclasses.fields(kind)
        if member.init
    )


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the types of a class's fields; names that only type checkers import are registered."""
    return typing.get_type_hints(kind, localns=NAMES)


def _is_default(value: object, member: dataclasses.Field[Any]) -> bool:
    """Return whether a field has its default."""
    if member.default_factory is not _MISSING:
        return isinstance(value, Mapping) and not value
    return type(value) is type(member.default) and value == member.default


# ---- bytes ----


def pack_bytes(words: Words, arrays: Arrays) -> bytes:
    """Return a plan's words and arrays as bytes, equal ones of equal plans but for the version."""
    # Arrays after the header, not in it: JSON of doubles is longer and slower, not more exact.
    numbers = {name: np.ascontiguousarray(a, _DTYPES[a.dtype.kind]) for name, a in arrays.items()}
    header = {
        "format": FORMAT,
        "hexveil": installed_version(),
        "arrays": [[name, a.dtype.str, a.size] for name, a in numbers.items()],
        "plan": words,
    }
    head = json.dumps(header, sort_keys=True).encode()
    chunks = (array.tobytes() for array in numbers.values())
    content = len(head).to_bytes(_SIZE_BYTES, "little") + head + b"".join(chunks)
    # One codec, one level: other settings would change the bytes of equal plans.
    packed: bytes = pa.compress(content, codec="zstd", asbytes=True)
    return MAGIC + len(content).to_bytes(_SIZE_BYTES, "little") + packed


def unpack_bytes(encoded: bytes) -> tuple[Words, Arrays]:
    """Return the header and the arrays of an encoded plan; StorageError if they are damaged."""
    start = len(MAGIC) + _SIZE_BYTES
    if not encoded.startswith(MAGIC):
        raise damaged()
    try:
        size = int.from_bytes(encoded[len(MAGIC) : start], "little")
        content = pa.decompress(encoded[start:], size, codec="zstd", asbytes=True)
        end = _SIZE_BYTES + int.from_bytes(content[:_SIZE_BYTES], "little")
        words = dict(json.loads(content[_SIZE_BYTES:end]))
        form, version = words["format"], words["hexveil"]
        arrays = _arrays_of(words, content, end) if form == FORMAT else {}
    # A damaged size can ask for more memory than there is.
    except (
        pa.ArrowException, OSError, LookupError, TypeError, ValueError, OverflowError, MemoryError,
    ):  # fmt: skip
        raise damaged() from None
    if form != FORMAT:
        raise InputError(
            f"the plan that the ledger keeps for this request was written by hexveil {version} "
            f"(format {form}), and this version reads format {FORMAT}; complete the release with "
            "that version, or plan again under another edition."
        )
    return words, arrays


def _arrays_of(words: Words, content: bytes, end: int) -> Arrays:
    """Return the arrays that stand after the header; ValueError if they do not fill the rest."""
    arrays: Arrays = {}
    for name, dtype, number in words["arrays"]:
        if dtype not in _DTYPES.values():
            raise ValueError("of another kind")
        # astype copies: views would keep all of the content, and are not aligned.
        arrays[name] = np.frombuffer(content, dtype, number, end).astype(np.dtype(dtype[1:]))
        end += int(number) * np.dtype(dtype).itemsize
    if end != len(content):
        raise ValueError("of another size")
    return arrays


def damaged() -> StorageError:
    """Return the error of a plan in the ledger that cannot be read."""
    return StorageError(
        "the plan that the ledger keeps for this request is damaged, so nothing was drawn; restore "
        "the ledger from a copy."
    )
