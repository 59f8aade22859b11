"""Keras objects with classes and functions of the student's own: what identifies them, and how they travel.

Keras saves an object by its configuration, where such a class or function is only a name. The class itself
is therefore sent with it, and so are the attributes that the configuration does not contain.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import functools
import inspect
import io
import json
import random
import sys
import types
from collections.abc import Iterator
from typing import Any

from . import names

GRAPH = {"_inbound_nodes", "_outbound_nodes", "_tracker", "history"}  # lead to other objects than the parts
SIMPLE = (type(None), bool, int, float, complex, str, bytes)


def is_keras(v: Any) -> bool:
    """Return whether a value is a model, a layer, an optimizer, a loss or a metric of Keras."""
    keras = sys.modules.get("keras")
    if keras is None or not hasattr(keras, "Layer"):
        return False
    return isinstance(v, (keras.Layer, keras.Optimizer, keras.Loss, keras.Metric))


def is_variable(v: Any) -> bool:
    """Return whether a value is a variable of Keras."""
    keras = sys.modules.get("keras")
    return keras is not None and hasattr(keras, "Variable") and isinstance(v, keras.Variable)


def description(v: Any) -> list[Any]:
    """Return what identifies a Keras object: plain values, the student's own code, and arrays.

    A name that Keras numbers (`dense_1`) does not count, nor does how far it has counted.
    """
    parts = reached(v)
    config, compiled = None, None
    with _distinct(parts):
        with contextlib.suppress(
            NotImplementedError, TypeError, ValueError
        ):  # a class without a configuration
            config = numbered_names(v.get_config())
        if hasattr(v, "get_compile_config"):
            with contextlib.suppress(NotImplementedError, TypeError, ValueError):
                compiled = numbered_names(v.get_compile_config() or {})
    if isinstance(v, sys.modules["keras"].Loss):  # for example, Huber's delta is not in its configuration
        compiled = getattr(v, "_fn_kwargs", {})
    variables = [getattr(v, "weights", None) or getattr(v, "variables", None) or []]
    variables.append(getattr(getattr(v, "optimizer", None), "variables", []))
    numbers = [[variable.numpy() for variable in some] for some in variables]
    code = [x for x in parts if isinstance(x, (type, types.FunctionType))]
    code += [type(x) for x in parts if x is not v and is_own(x)]
    more = [layers(parts)] if is_own(v) else []
    return [config, compiled, numbers, code, [attributes(x) for x in parts if is_own(x)], *more]


def layers(parts: list[Any]) -> str:
    """Return the configurations of the layers of Keras among these parts, without models, as JSON."""
    keras, found = sys.modules["keras"], []
    with _distinct(parts):
        for x in parts:
            if isinstance(x, keras.Layer) and not isinstance(x, keras.Model) and not is_own(x):
                with contextlib.suppress(NotImplementedError, TypeError, ValueError):
                    found.append([type(x).__name__, x.get_config()])
    return json.dumps(numbered_names(found), default=lambda v: type(v).__name__)


def reached(v: Any) -> list[Any]:
    """Return a Keras object and its parts: Keras objects, the student's objects, functions and classes."""
    found: list[Any] = []
    seen: dict[int, Any] = {}
    todo = collections.deque([v])
    while todo:
        x = todo.popleft()
        if id(x) in seen:
            continue
        seen[id(x)] = x
        if isinstance(x, (list, tuple, set, frozenset)):
            todo.extend(x)
        elif isinstance(x, dict):
            todo.extend(x.values())
        elif isinstance(x, (type, types.FunctionType)):
            if names.is_local(x):
                found.append(x)
        elif not is_variable(x) and (type(x).__module__.startswith("keras.") or is_own(x)):
            found.append(x)
            todo.extend(value for name, value in getattr(x, "__dict__", {}).items() if name not in GRAPH)
    return found


def is_own(v: Any) -> bool:
    """Return whether a value is an instance of a class of the student's."""
    return names.is_local(type(v))


def attributes(v: Any) -> dict[str, Any]:
    """Return the attributes of an object of the student's that Keras does not keep itself."""
    theirs: frozenset[str] = _mentioned(type(v)) if is_keras(v) else frozenset()  # type: ignore[arg-type]
    found = {}
    for name, value in vars(v).items() if hasattr(v, "__dict__") else ():
        value = _untracked(value)
        kept = name not in theirs or (not name.startswith("_") and _is_plain(value))
        if kept and name != "name" and not _contains_keras(value):
            found[name] = value
    return found


@functools.cache
def _mentioned(c: Any) -> frozenset[str]:
    """Return all names in the code of the installed classes that a class is derived from."""
    functions = [f for b in c.__mro__ if not names.is_local(b) for f in vars(b).values()]
    codes = [getattr(getattr(f, "fget", f), "__code__", None) for f in functions]
    return frozenset(name for code in codes if code for name in code.co_names)


def _untracked(v: Any) -> Any:
    """Return a list or dictionary that Keras or TensorFlow observes as a plain one."""
    if type(v).__module__.startswith(("keras.", "tensorflow.")):
        if isinstance(v, collections.abc.Mapping):
            return {k: _untracked(x) for k, x in v.items()}
        if isinstance(v, (list, tuple, set)):
            return next(t for t in (list, tuple, set) if isinstance(v, t))(_untracked(x) for x in v)
    return v


def _is_plain(v: Any) -> bool:
    if isinstance(v, dict):
        return all(map(_is_plain, v.values()))
    return all(map(_is_plain, v)) if isinstance(v, (list, tuple, set)) else isinstance(v, SIMPLE)


def _contains_keras(v: Any) -> bool:
    if isinstance(v, dict):
        return any(map(_contains_keras, v.values()))
    if isinstance(v, (list, tuple, set)):
        return any(map(_contains_keras, v))
    return is_keras(v) or is_variable(v)


def reduction(v: Any) -> tuple | None:
    """Return how to send a Keras object that has code of the student's (see `__reduce__`), otherwise None.

    Raises ValueError if it could not be made again on a rank.
    """
    keras = sys.modules["keras"]
    parts = reached(v)
    own = [x for x in parts if isinstance(x, (type, types.FunctionType)) or is_own(x)]
    if not own:
        return None
    if isinstance(v, (keras.Loss, keras.Metric)):
        return object.__new__, (type(v),), vars(v)
    code = custom_objects(own)
    from keras.src.saving import saving_lib

    buffer = io.BytesIO()
    with _distinct(own):
        code |= {x.__name__: x for x in own if isinstance(x, types.FunctionType)}
        saving_lib._save_model_to_fileobj(v, buffer, "h5")
    values = [_sendable(attributes(x)) for x in parts if is_own(x) and is_keras(x)]
    sent = buffer.getvalue(), code, values
    try:
        with _unchanged():
            if layers(reached(restore(*sent))) != layers(parts):
                raise ValueError("it returns other layers; define get_config()")
    except Exception as e:
        why = str(e).strip().splitlines() or [type(e).__name__]
        raise ValueError(f"Keras cannot make it again from its get_config(): {why[-1]}") from None
    return restore, sent


def custom_objects(parts: list[Any]) -> dict[str, Any]:
    """Return {name in a configuration: the class or function}. Raises ValueError if two classes share one."""
    keras, found = sys.modules["keras"], dict[str, Any]()
    for x in parts:
        own = x if isinstance(x, (type, types.FunctionType)) else type(x)
        for name in {own.__name__, keras.saving.get_registered_name(own)}:
            if isinstance(own, type) and found.get(name, own) is not own:
                raise ValueError(f"two of its classes have the name {name!r}")
            found[name] = own
    return found


@contextlib.contextmanager
def _distinct(parts: list[Any]) -> Iterator[None]:
    """Give the student's functions distinct names, since Keras saves a lambda without what it refers to."""
    before = {id(x): (x, x.__name__) for x in parts if isinstance(x, types.FunctionType)}
    for i, (function, _) in enumerate(before.values()):
        function.__name__ = f"function {i}"
    try:
        yield
    finally:
        for function, name in before.values():
            function.__name__ = name


def restore(content: bytes, code: dict[str, Any], values: list[dict[str, Any]]) -> Any:
    """Return the Keras object that `reduction` has saved."""
    import keras
    from keras.src.saving import saving_lib

    with keras.saving.custom_object_scope(code), _constructible(code):
        v = saving_lib._load_model_from_fileobj(io.BytesIO(content), code, compile=True, safe_mode=False)
    for x, changed in zip([x for x in reached(v) if is_own(x) and is_keras(x)], values, strict=True):
        for name, value in changed.items():
            setattr(x, name, value)
    return v


@contextlib.contextmanager
def _constructible(code: dict[str, Any]) -> Iterator[None]:
    """Let the student's classes be made from configurations with more than their constructors take."""
    with contextlib.ExitStack() as after:
        for c in {c for c in code.values() if isinstance(c, type)}:
            definer = next((b for b in c.__mro__ if "from_config" in vars(b)), None)
            if definer and not names.is_local(definer):
                setattr(c, "from_config", classmethod(functools.partial(_make, definer)))  # noqa: B010
                after.callback(delattr, c, "from_config")
        yield


def _make(definer: Any, c: Any, config: dict[str, Any]) -> Any:
    taken = inspect.signature(c.__init__).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in taken.values())
    kept = {k: v for k, v in config.items() if anything or k in taken}
    made = vars(definer)["from_config"].__func__(c, kept)
    if "trainable" in config.keys() - kept.keys():
        made.trainable = config["trainable"]
    return made


def _sendable(values: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes that can be sent; the constructor makes the others on the rank."""
    import cloudpickle

    kept = {}
    for name, value in values.items():
        with contextlib.suppress(Exception):
            cloudpickle.dumps(value)
            kept[name] = value
    return kept


@contextlib.contextmanager
def _unchanged() -> Iterator[None]:
    """Restore the random numbers and the counted names of this process."""
    from keras.src.backend.common import global_state

    counted = global_state.get_global_attribute("object_name_uids")
    before, numbers = copy.copy(counted), random.getstate()
    numpy = sys.modules["numpy"].random.get_state()
    try:
        yield
    finally:
        global_state.set_global_attribute("object_name_uids", before)
        random.setstate(numbers)
        sys.modules["numpy"].random.set_state(numpy)


def numbered_names(config: Any) -> Any:
    """Return a configuration with names replaced by numbers, because Keras counts names: `dense`, `dense_1`.

    >>> numbered_names({"name": "dense_7", "inbound": ["dense_7"]})
    {'name': '<name 0>', 'inbound': ['<name 0>']}
    """
    numbers: dict[str, str] = {}

    def gather(v: Any) -> None:
        if isinstance(v, dict):
            if isinstance(name := v.get("name"), str):
                numbers.setdefault(name, f"<name {len(numbers)}>")
            for x in v.values():
                gather(x)
        elif isinstance(v, (list, tuple)):
            for x in v:
                gather(x)

    def replace(v: Any) -> Any:
        if isinstance(v, dict):
            return {k: replace(x) for k, x in v.items()}
        if isinstance(v, (list, tuple)):
            return type(v)(replace(x) for x in v)
        return numbers.get(v, v) if isinstance(v, str) else v

    gather(config)
    return replace(config)
