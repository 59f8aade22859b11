"""How values are sent to the ranks: by cloudpickle, with a few kinds of values that it cannot send.

The cache key is computed from the same reductions, so it contains whatever the ranks can see of a value.
"""

from __future__ import annotations

import functools
import io
import os
import pickle
import sys
from collections.abc import Callable, Mapping
from typing import Any

from . import keras_objects, names

LEAST = 2**20  # bytes of the smallest array that is stored separately


def reduction(v: Any) -> Any:
    """Return what is sent of an object: a name, or a tuple as of `__reduce__`. Raises what pickle raises."""
    import cloudpickle

    if (special := _special(v)) is not None:
        return special
    if isinstance(v, io.IOBase) and not isinstance(v, (io.BytesIO, io.StringIO)):
        raise TypeError("an open file is not read to compare it")  # it may be endless
    table: Mapping[Any, Callable[[Any], Any]] = cloudpickle.Pickler.dispatch_table
    reduce = table.get(type(v))
    return v.__reduce_ex__(4) if reduce is None else reduce(v)


def dumps(value: Any, apart: bool = False) -> tuple[bytes, list[memoryview]]:
    """Return (a pickled value, the bytes of its arrays, not copied); with `apart`, without large arrays."""
    arrays: list[memoryview] = []

    def stays_inside(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes < LEAST:
            return True
        arrays.append(view)
        return False

    file = io.BytesIO()
    _pickler()(file, protocol=5, buffer_callback=stays_inside if apart else None).dump(value)
    return file.getvalue(), arrays


@functools.cache
def _pickler() -> Any:
    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, v: Any) -> Any:
            special = _special(v)
            return super().reducer_override(v) if special is None else special

    return Pickler


def _special(v: Any) -> tuple | None:
    """Return the reduction of a value that cloudpickle cannot send, or sends wrongly."""
    if v is os.environ:  # the rank's own
        return getattr, (os, "environ")
    if isinstance(v, functools._lru_cache_wrapper) and not names.named(v):
        kept = {k: x for k, x in vars(v).items() if k not in (*functools.WRAPPER_ASSIGNMENTS, "__wrapped__")}
        return _cached, (v.__wrapped__, *v.cache_parameters().values()), kept or None
    if isinstance(v, functools.cached_property):
        return functools.cached_property, (v.func,), {"attrname": v.attrname}
    if type(v).__name__ == "Function" and hasattr(v, "_python_function"):  # a tf.function
        given = {"python_function": v._python_function, "input_signature": v.input_signature}
        options = ("name", "autograph", "jit_compile", "reduce_retracing", "experimental_autograph_options")
        given |= {name: getattr(v, f"_{name}") for name in options}
        kind: Any = type(v)
        return functools.partial(kind, **given), ()
    if "keras" in sys.modules and keras_objects.is_keras(v):
        return keras_objects.reduction(v)
    return None


def _cached(function: Callable, size: int | None, typed: bool) -> Any:
    return functools.lru_cache(size, typed)(function)
