"""Settings declared as a dataclass, each field with its rule. All faults of a file are reported at once.

It needs no package, because `make hub` checks the settings before there is an environment.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from .services import HubError

Rule = tuple[Callable[[Any], object], str]  # whether a value is valid; the words after "must be"
T = TypeVar("T")


def setting(rule: Rule, default: Any = dataclasses.MISSING) -> Any:
    """Return a field of a dataclass that must follow a rule; without a default it has to be given."""
    return dataclasses.field(default=default, metadata={"rule": rule})


def table(kind: type, default: Any, several: bool = False) -> Any:
    """Return a field that is a table with the fields of `kind`, or a list of such tables (as a tuple)."""
    return dataclasses.field(default=default, metadata={"kind": kind, "several": several})


def whole(low: int, high: int) -> Rule:
    """Return the rule of a whole number."""
    return lambda v: type(v) is int and low <= v <= high, f"a whole number from {low} to {high}"


def one_of(*known: str) -> Rule:
    """Return the rule of a choice."""
    return lambda v: v in known, " or ".join(map(repr, known))


def text(pattern: str, words: str) -> Rule:
    """Return the rule of a string that matches a regular expression."""
    return lambda v: isinstance(v, str) and re.fullmatch(pattern, v), words


def made(kind: type[T], values: object, where: str = "the settings") -> T:
    """Return an instance of `kind` from plain values, as in TOML and JSON.

    `kind` may have a method `conflicts` for rules about several fields. Raises HubError with all faults.
    """
    if found := _faults(kind, values, ""):
        raise HubError("\n".join([f"{where} cannot be used:", *found]) if len(found) > 1 else found[0])
    result = _instance(kind, values)
    if hasattr(result, "conflicts") and (found := result.conflicts()):
        raise HubError("\n".join(found))
    return result


def from_toml(kind: type[T], path: Path) -> T:
    """Return an instance of `kind` from a TOML file; missing keys keep their defaults."""
    try:
        return made(kind, tomllib.loads(path.read_text()), str(path))
    except OSError as e:
        raise HubError(f"{path}: {e.strerror}.") from None
    except tomllib.TOMLDecodeError as e:
        raise HubError(f"{path} is not valid TOML: {e}.") from None


def _faults(kind: Any, values: object, name: str) -> list[str]:
    """Describe each unknown, missing or invalid value. name: of the table, or "" for the whole file."""
    if not isinstance(values, dict):
        return [f"{name} = {values!r} must be a table, [{name}]."]
    fields, prefix, result = {f.name: f for f in dataclasses.fields(kind)}, f"{name}." if name else "", []
    for key in sorted(values.keys() - fields.keys()):
        near = difflib.get_close_matches(key, fields, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Known are: {', '.join(fields)}."
        result.append(f"{prefix}{key} is unknown. {hint}")
    for key, field in fields.items():
        if key not in values:
            if field.default is dataclasses.MISSING:
                result.append(f"{prefix}{key} is missing. It must be {field.metadata['rule'][1]}.")
        elif "kind" not in field.metadata:
            holds, words = field.metadata["rule"]
            if not holds(values[key]):
                result.append(f"{prefix}{key} = {values[key]!r} must be {words}.")
        elif not field.metadata["several"]:
            if values[key] is not None:
                result += _faults(field.metadata["kind"], values[key], key)
        elif not isinstance(values[key], list | tuple) or not values[key]:
            result.append(f"{prefix}{key} = {values[key]!r} must be a list of at least one table, [[{key}]].")
        else:
            result += [fault for one in values[key] for fault in _faults(field.metadata["kind"], one, key)]
    return result


def _instance(kind: Any, values: Any) -> Any:
    """Return an instance of `kind` from valid plain values."""
    given = dict(values)
    for field in dataclasses.fields(kind):
        value = given.get(field.name)
        if value is None:
            continue
        if field.metadata.get("several"):
            given[field.name] = tuple(_instance(field.metadata["kind"], one) for one in value)
        elif "kind" in field.metadata:
            given[field.name] = _instance(field.metadata["kind"], value)
        elif isinstance(value, list):
            given[field.name] = tuple(value)
    return kind(**given)
