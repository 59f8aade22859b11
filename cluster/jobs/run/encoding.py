"""Values as plain data, which cannot run code: JSON for the structure, arrays next to it.

What comes back as what:

    None, bool, int, float, str, complex     the same, also NaN, infinities and integers of any size
    list, tuple, set, frozenset, deque       the same, with the same types inside
    dict, OrderedDict, Counter               the same, in the same order; keys of all kinds in this table
    defaultdict                              the same; its factory only if it is a built-in type, else None
    named tuple, dataclass, Enum member      of its class, if the reading process has loaded it with the same
                                             fields; otherwise a named tuple with its name and its fields
    bytes, bytearray, range, Path, Decimal, Fraction, SimpleNamespace, date, time, datetime, timedelta,
    timezone, ZoneInfo                       the same
    NumPy arrays and scalars                 the same, with their dtype: numbers, text, bytes, times, records,
                                             bfloat16 and its relatives, and objects of the kinds here
    tensors, Keras variables                 an array

Each other value becomes `Unstored`: its text and, where it has any, its attributes or elements. So does a
container inside itself, and what is nested deeper than DEPTH.
"""

from __future__ import annotations

import base64
import collections
import contextlib
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import pathlib
import reprlib
import sys
import types
import zoneinfo
from collections.abc import Callable, Iterable
from typing import Any

from ..errors import ResultError

DEPTH = 400  # nested containers; deeper ones are text
TEXT, TEXTS = 2**16, 2**22  # characters of one unstored part, and of all of them
LONG = 2**63  # integers from here on are stored in hexadecimal, because Python limits decimal ones
NUMERIC = "biufcUSMm"  # kinds of dtypes that an npz file stores as they are
FACTORIES = {t.__name__: t for t in (list, dict, set, tuple, int, float, str, bool, complex, frozenset)}
Encode = Callable[["Packer", Any], Any]
Decode = Callable[["Unpacker", Any], Any]


class Unstored:
    """A part of a result that was not stored. Its text remains, and its attributes or elements as `content`.

    place: where it is in the result. type: the full name of its class. text: its `repr`, shortened. why: the
    reason. content: a dictionary of its attributes, or its elements as a built-in container, or None.
    """

    def __init__(self, place: str, type: str, text: str, why: str, content: Any = None):
        self.place, self.type, self.text, self.why, self.content = place, type, text, why, content

    def __repr__(self) -> str:
        return f"<not stored: {self.text if len(self.text) <= 80 else self.text[:79] + '…'}>"


class Packer:
    """Converts values to JSON types. arrays: gets the arrays, by name. strict: raise ResultError instead of
    leaving something out. skip: {id of a value: why it is left out}. unstored: what was left out, with its
    value. tagged: whether anything but plain JSON was used.
    """

    def __init__(
        self,
        arrays: dict[str, Any],
        root: str = "the result",
        strict: bool = False,
        skip: dict[int, str] | None = None,
    ):
        self.arrays, self.unstored, self.tagged = arrays, list[tuple[Unstored, Any]](), False
        self._root, self._strict, self._skip = root, strict, skip or {}
        self._path: list[Any] = []  # of each step: an index, (key,), ("key", key), or its text
        self._open: set[int] = set()  # the values around the current one
        self._whole = 0  # in so many values that can only be stored as a whole
        self._inside, self._texts = False, TEXTS  # in an unstored part; characters of text that may be kept

    def pack(self, v: Any, step: Any = None) -> Any:
        """Return a value as JSON types; `step` leads to it from the value that contains it."""
        kind = type(v)
        if v is None or kind is bool or kind is float or kind is str or (kind is int and -LONG < v < LONG):
            return v
        if step is not None:
            self._path.append(step)
        new, before = id(v) not in self._open, len(self.arrays)
        try:
            if not new or id(v) in self._skip:
                return self._leave_out(v, self._skip.get(id(v), "it contains itself"), content=False)
            self._open.add(id(v))
            return self._encoded(v, kind)
        except ResultError:
            raise
        except Exception as e:
            for name in list(self.arrays)[before:]:
                del self.arrays[name]
            return self._leave_out(v, str(e) if isinstance(e, _Refused) else "")
        finally:
            if new:
                self._open.discard(id(v))
            if step is not None:
                self._path.pop()

    def whole(self, v: Any) -> Any:
        """Return a value as JSON types; if a part of it has no encoding, the value around it has none."""
        self._whole += 1
        try:
            return self.pack(v)
        finally:
            self._whole -= 1

    def _encoded(self, v: Any, kind: type) -> Any:
        if len(self._path) > DEPTH:
            raise _Refused(f"it is nested in more than {DEPTH} others")
        if kind is list:
            return self.each(v)
        self.tagged = True
        if kind is dict:
            if all(type(k) is str and not k.startswith("__") for k in v):
                return {k: self.pack(x, (k,)) for k, x in v.items()}
            return {"__dict__": self.pairs(v)}
        for applies, tag, encode in [(None, *ENCODERS[kind])] if kind in ENCODERS else FAMILIES:
            if applies is None or applies(v):
                return {f"__{tag}__": encode(self, v)}
        raise _Refused("")

    def each(self, v: Iterable[Any]) -> list[Any]:
        return [self.pack(x, i) for i, x in enumerate(v)]

    def pairs(self, v: dict[Any, Any]) -> list[Any]:
        return [[self.pack(k, ("key", k)), self.pack(x, (k,))] for k, x in v.items()]

    def attributes(self, v: dict[str, Any]) -> dict[str, Any]:
        return {k: self.pack(x, f".{k}") for k, x in v.items()}

    def store(self, array: Any) -> str:
        """Keep an array, and return its name."""
        name = f"a{len(self.arrays)}"
        self.arrays[name] = array
        return name

    def _place(self) -> str:
        """Return where the current value is, such as "the result['history'][3].model"."""
        steps = list(map(_step, self._path))
        return self._root + "".join(steps[:20] + ["…"] * (len(steps) > 20))

    def _leave_out(self, v: Any, why: str, content: bool = True) -> dict[str, Any]:
        """Return what stands for a value that is not stored. Raises ResultError if strict."""
        name = _type_of(v)
        if self._whole:
            raise _Refused(why or f"it contains a {name}, which has no encoding")
        if self._strict:
            raise ResultError(f"{self._place()} is of type {name}, which cannot be stored.", HINT)
        text = text_of(v)[: self._texts]
        self._texts -= len(text)
        shown = {"place": self._place(), "type": name, "text": text, "why": why or "it has no encoding"}
        self.tagged = True
        if not self._inside:
            self.unstored.append((Unstored(**shown), v))
        if content and not self._inside:  # the parts of a part are text: they may lead to everything else
            self._inside = True
            with contextlib.suppress(Exception):  # there is none, or it cannot be read
                shown["content"] = self.pack(_content(v))
            self._inside = False
        return {"__unstored__": shown}


class Unpacker:
    """Converts the result of `Packer` back. unstored: the parts that were left out."""

    def __init__(self, arrays: dict[str, Any]):
        self.arrays, self.unstored = arrays, list[Unstored]()

    def unpack(self, v: Any) -> Any:
        """Return the value. Raises an exception, of no particular class, for a damaged record."""
        if isinstance(v, list):
            return [self.unpack(x) for x in v]
        if not isinstance(v, dict):
            return v
        if len(v) == 1:
            ((tag, inside),) = v.items()
            if tag.startswith("__") and tag[2:-2] in DECODERS:
                return DECODERS[tag[2:-2]](self, inside)
        return {k: self.unpack(x) for k, x in v.items()}

    def pairs(self, v: list[Any]) -> dict[Any, Any]:
        return {self.hashable(k): self.unpack(x) for k, x in v}

    def hashable(self, v: Any) -> Any:
        """Return a key or an element; one whose class is no longer hashable as what was not stored."""
        key = self.unpack(v)
        try:
            hash(key)
        except TypeError:
            key = Unstored("", type(key).__qualname__, text_of(key), "it is no longer hashable", key)
            self.unstored.append(key)
        return key


def pack(v: Any, where: str, arrays: dict[str, Any]) -> Any:
    """Convert a value to JSON types, adding its arrays to `arrays`. Raises ResultError with the location."""
    return Packer(arrays, where, strict=True).pack(v)


def unpack(v: Any, arrays: dict[str, Any]) -> Any:
    """Convert the result of `pack` and its arrays back to the original value."""
    return Unpacker(arrays).unpack(v)


def text_of(v: Any, most: int = TEXT) -> str:
    """Return a value's repr, of at most `most` characters; never raises."""
    shortener = reprlib.Repr()
    shortener.maxlevel = 4
    for name in ("maxdict", "maxlist", "maxtuple", "maxset", "maxfrozenset", "maxdeque", "maxarray"):
        setattr(shortener, name, 30)
    shortener.maxstring = shortener.maxother = shortener.maxlong = most
    try:
        return str(shortener.repr(v))[:most]
    except BaseException as e:  # whatever a student's class raises
        return f"<{type(v).__qualname__} whose repr raises {type(e).__name__}>"


def short(v: Any) -> str:
    """Return a value as text of at most 60 characters."""
    return text_of(v, 60)


HINT = (
    "Return numbers, text, arrays, tensors, or containers of these: of a Keras History its .history, of a "
    "model model.get_weights(), of a table table.to_dict('list'), of a generator a list, of another object "
    "the attributes that you need."
)


class _Refused(Exception):
    """A value has no encoding; the message is the reason, if there is a particular one."""


def _step(step: Any) -> str:
    if isinstance(step, str):
        return step
    if isinstance(step, int):
        return f"[{step}]"
    return f"[{short(step[0])}]" if len(step) == 1 else f", key {short(step[1])}"


def _type_of(v: Any) -> str:
    name = f"{type(v).__module__}.{type(v).__qualname__}".removeprefix("builtins.")
    return f"{name} of dtype {v.dtype}" if name == "numpy.ndarray" else name


def _content(v: Any) -> Any:
    """Return the elements of an array, a table or a subclass of a built-in type, else the attributes."""
    bases: Any = (dict, list, tuple, set, frozenset, str, int, float, bytes)
    for base in bases:
        if isinstance(v, base):
            return None if type(v) is base else base(v)
    if type(v).__name__ == "DataFrame":
        return v.to_dict("list")
    if type(v).__module__.startswith(("numpy", "pandas")):
        return v.tolist()
    return None if isinstance(v, (type, types.ModuleType, types.FunctionType)) else dict(vars(v)) or None


def _loaded(module: str, qualname: str) -> Any:
    """Return a class if this process has loaded it, without importing or running anything; else None."""
    found = sys.modules.get(module)
    for name in qualname.split("."):
        found = vars(found).get(name) if isinstance(found, (type, types.ModuleType)) else None
    return found if isinstance(found, type) and module.partition(".")[0] != "cluster" else None


# Kinds. Each has a tag, and functions to and from what is stored under it.
ENCODERS: dict[type, tuple[str, Encode]] = {}
FAMILIES: list[tuple[Callable[[Any], bool], str, Encode]] = []
DECODERS: dict[str, Decode] = {}


def _simple(cls: type, tag: str, to: Callable[[Any], Any], back: Callable[[Any], Any]) -> None:
    """Register a class whose value is given by another value, such as a text or a list of numbers."""
    ENCODERS[cls] = tag, lambda packer, v: packer.whole(to(v))
    DECODERS[tag] = lambda unpacker, v: back(unpacker.unpack(v))


def _container(cls: type, tag: str, back: Callable[[Any], Any]) -> None:
    ENCODERS[cls] = tag, lambda packer, v: packer.each(v)
    DECODERS[tag] = lambda unpacker, v: back([unpacker.unpack(x) for x in v])


def _mapping(cls: type, tag: str, back: Callable[[Any], Any]) -> None:
    ENCODERS[cls] = tag, lambda packer, v: packer.pairs(v)
    DECODERS[tag] = lambda unpacker, v: back(unpacker.pairs(v))


_container(tuple, "tuple", tuple)
for cls in (set, frozenset):
    _container(cls, cls.__name__, cls)
DECODERS["set"] = lambda unpacker, v: {unpacker.hashable(x) for x in v}
DECODERS["frozenset"] = lambda unpacker, v: frozenset(unpacker.hashable(x) for x in v)
DECODERS["dict"] = Unpacker.pairs
_mapping(collections.OrderedDict, "OrderedDict", collections.OrderedDict)
_mapping(collections.Counter, "Counter", collections.Counter)
ENCODERS[collections.defaultdict] = "defaultdict", lambda packer, v: [
    next((name for name, t in FACTORIES.items() if t is v.default_factory), None), packer.pairs(v)
]  # fmt: skip
DECODERS["defaultdict"] = lambda unpacker, v: collections.defaultdict(
    FACTORIES.get(v[0]) if v[0] else None, unpacker.pairs(v[1])
)
ENCODERS[collections.deque] = "deque", lambda packer, v: [v.maxlen, packer.each(v)]
DECODERS["deque"] = lambda unpacker, v: collections.deque(map(unpacker.unpack, v[1]), v[0])
ENCODERS[types.SimpleNamespace] = "namespace", lambda packer, v: packer.attributes(dict(vars(v)))
DECODERS["namespace"] = lambda unpacker, v: types.SimpleNamespace(
    **{k: unpacker.unpack(x) for k, x in v.items()}
)
ENCODERS[int] = "int", lambda packer, v: hex(v)
DECODERS["int"] = lambda unpacker, v: int(v, 16)


def _of_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_simple(bytes, "bytes", lambda v: base64.b64encode(v).decode(), _of_base64)
_simple(bytearray, "bytearray", lambda v: base64.b64encode(v).decode(), lambda v: bytearray(_of_base64(v)))
_simple(complex, "complex", lambda v: [v.real, v.imag], lambda v: complex(*v))
_simple(range, "range", lambda v: [v.start, v.stop, v.step], lambda v: range(*v))
_simple(decimal.Decimal, "decimal", str, decimal.Decimal)
_simple(
    fractions.Fraction, "fraction", lambda v: [v.numerator, v.denominator], lambda v: fractions.Fraction(*v)
)
_simple(type(pathlib.Path()), "path", str, pathlib.Path)
_simple(datetime.date, "date", str, datetime.date.fromisoformat)
_simple(
    datetime.timedelta,
    "timedelta",
    lambda v: [v.days, v.seconds, v.microseconds],
    lambda v: datetime.timedelta(*v),
)
_simple(datetime.timezone, "timezone", lambda v: list(v.__getinitargs__()), lambda v: datetime.timezone(*v))
_simple(zoneinfo.ZoneInfo, "zone", lambda v: v.key, zoneinfo.ZoneInfo)


def _zoned(cls: Any, v: list[Any]) -> Any:
    return cls.fromisoformat(v[0]).replace(fold=v[1], tzinfo=v[2])


for moment in (datetime.datetime, datetime.time):
    _simple(
        moment, moment.__name__, lambda v: [v.replace(tzinfo=None, fold=0).isoformat(), v.fold, v.tzinfo],
        functools.partial(_zoned, moment),
    )  # fmt: skip


def _family(applies: Callable[[Any], bool], tag: str) -> Callable[[Encode], Encode]:
    """Register an encoder for values with a true `applies`."""

    def register(encode: Encode) -> Encode:
        FAMILIES.append((applies, tag, encode))
        return encode

    return register


def _decoder(tag: str) -> Callable[[Decode], Decode]:
    def register(decode: Decode) -> Decode:
        DECODERS[tag] = decode
        return decode

    return register


# Members and instances of a program's own classes.
def _stand_in(qualname: str, fields: dict[str, Any]) -> Any:
    """Return a named tuple for an instance of a class that this process has not loaded."""
    return collections.namedtuple(qualname.rpartition(".")[2], fields, rename=True)(*fields.values())


@_family(lambda v: isinstance(v, enum.Enum), "enum")
def _enum(packer: Packer, v: Any) -> Any:
    return [type(v).__module__, type(v).__qualname__, v.name, packer.whole(v._value_)]


@_decoder("enum")
def _member(unpacker: Unpacker, v: Any) -> Any:
    module, qualname, name, value = v
    found, value = _loaded(module, qualname), unpacker.unpack(value)
    if isinstance(found, enum.EnumMeta):
        with contextlib.suppress(ValueError, TypeError):  # it no longer has this member
            return found._member_map_[name] if name in found._member_map_ else found(value)
    return _stand_in(qualname, {"name": name, "value": value})


@_family(
    lambda v: isinstance(v, tuple) and hasattr(type(v), "_fields") and not getattr(v, "__dict__", None),
    "namedtuple",
)
def _named_tuple(packer: Packer, v: Any) -> Any:
    fields = dict(zip(type(v)._fields, tuple.__iter__(v), strict=True))
    return [type(v).__module__, type(v).__qualname__, packer.attributes(fields)]


@_decoder("namedtuple")
def _of_fields(unpacker: Unpacker, v: Any) -> Any:
    module, qualname, fields = v
    found, fields = _loaded(module, qualname), {k: unpacker.unpack(x) for k, x in fields.items()}
    if not (found and issubclass(found, tuple) and getattr(found, "_fields", None) == tuple(fields)):
        return _stand_in(qualname, fields)
    return tuple.__new__(found, fields.values())


@_family(
    lambda v: dataclasses.is_dataclass(v) and not isinstance(v, (type, BaseException, dict, list)),
    "dataclass",
)
def _dataclass(packer: Packer, v: Any) -> Any:
    names = [f.name for f in dataclasses.fields(v)]
    state = {n: getattr(v, n) for n in names if hasattr(v, n)} | getattr(v, "__dict__", {})
    return [type(v).__module__, type(v).__qualname__, names, packer.attributes(state)]


@_decoder("dataclass")
def _instance(unpacker: Unpacker, v: Any) -> Any:
    module, qualname, names, state = v
    found, state = _loaded(module, qualname), {k: unpacker.unpack(x) for k, x in state.items()}
    if not (dataclasses.is_dataclass(found) and [f.name for f in dataclasses.fields(found)] == names):
        return _stand_in(qualname, state)
    result: Any = object.__new__(found)  # type: ignore[arg-type]
    for name, x in state.items():
        object.__setattr__(result, name, x)
    return result


# NumPy. It is imported only where it is used, and is loaded if one of its values exists.
def _numpy(v: Any, *names: str) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and any(type(v) is getattr(numpy, n) for n in names)


def _is_scalar(v: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(v, numpy.generic)


@_family(lambda v: _numpy(v, "str_", "bytes_"), "text")
def _text(packer: Packer, v: Any) -> Any:
    plain = (
        str.__str__(v) if isinstance(v, str) else bytes(v)
    )  # an array would drop NUL characters at the end
    return packer.pack(plain)


@_decoder("text")
def _of_text(unpacker: Unpacker, v: Any) -> Any:
    import numpy as np

    plain = unpacker.unpack(v)
    return np.str_(plain) if isinstance(plain, str) else np.bytes_(plain)


@_family(lambda v: _numpy(v, "ndarray", "memmap"), "array")
def _array(packer: Packer, v: Any) -> Any:
    import numpy as np

    v = np.asarray(v)
    plain = v.dtype.kind in NUMERIC or (v.dtype.kind == "V" and not v.dtype.hasobject and _built_in(v.dtype))
    if plain:
        return packer.store(v)
    if v.dtype.kind == "O":
        return {"shape": list(v.shape), "items": packer.each(v.ravel())}
    if type(v.dtype.type).__module__ == "builtins" and v.dtype.type.__module__ == "ml_dtypes":
        return {"ml_dtypes": v.dtype.name, "bits": packer.store(v.view(f"u{v.dtype.itemsize}"))}
    raise _Refused(f"an array of dtype {v.dtype} has no encoding")


def _built_in(dtype: Any) -> bool:
    """Return whether a dtype, and each of its fields, is one of NumPy's own."""
    if dtype.subdtype:
        return _built_in(dtype.subdtype[0])
    if dtype.names:
        return all(_built_in(dtype[name]) for name in dtype.names)
    return dtype.kind in NUMERIC or dtype.type.__module__ == "numpy"


@_decoder("array")
def _of_array(unpacker: Unpacker, v: Any) -> Any:
    import numpy as np

    if isinstance(v, str):
        return unpacker.arrays[v]
    if "bits" in v:
        import ml_dtypes

        return unpacker.arrays[v["bits"]].view(np.dtype(getattr(ml_dtypes, v["ml_dtypes"])))
    result = np.empty(len(v["items"]), object)
    for i, x in enumerate(v["items"]):
        result[i] = unpacker.unpack(x)
    return result.reshape(v["shape"])


@_family(_is_scalar, "scalar")
def _scalar(packer: Packer, v: Any) -> Any:
    import numpy as np

    if v.dtype.kind in "biu" or (v.dtype.kind == "f" and v.dtype.itemsize <= 8):
        return {"dtype": v.dtype.str, "value": v.item()}
    return _array(packer, np.asarray(v))


@_decoder("scalar")
def _of_scalar(unpacker: Unpacker, v: Any) -> Any:
    import numpy as np

    if isinstance(v, dict) and "dtype" in v:
        return np.dtype(v["dtype"]).type(v["value"])
    return _of_array(unpacker, v)[()]


@_family(lambda v: type(v).__module__.startswith(("tensorflow", "keras")) and hasattr(v, "numpy"), "tensor")
def _tensor(packer: Packer, v: Any) -> Any:
    return packer.whole(v.numpy())


@_decoder("tensor")
def _of_tensor(unpacker: Unpacker, v: Any) -> Any:
    return unpacker.unpack(v)


@_decoder("unstored")
def _of_unstored(unpacker: Unpacker, v: Any) -> Any:
    content = Unpacker(unpacker.arrays).unpack(v.get("content"))
    part = Unstored(v["place"], v["type"], v["text"], v["why"], content)
    unpacker.unstored.append(part)
    return part
