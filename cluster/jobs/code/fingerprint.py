"""The cache key of a run: a hash of everything provided by the student that can change its result.

The key covers the code of the function, of the notebook's functions and classes it refers to, the values
of the constants it refers to, its arguments and its resources, and what it reads (see `reads`). Code is
compared as syntax, so comments, formatting and docstrings do not count. Installed packages count by name
only; their versions are recorded.

A value is compared as the ranks get it: each object by what pickle sends of it. What has no such form cannot
be compared with anything, so a run that refers to it is never replayed (`Closure.unstable`).
"""

from __future__ import annotations

import ast
import contextlib
import copy
import dis
import functools
import hashlib
import inspect
import json
import linecache
import os
import pathlib
import sys
import textwrap
import types
import typing
import weakref
from pathlib import Path
from typing import Any

from . import keras_objects, modules, pickling, reads
from .names import is_local, named

SKIP = {"__module__", "__dict__", "__weakref__", "__doc__", "__firstlineno__", "__static_attributes__"}
SKIP |= {"__abstractmethods__", "_abc_impl", "__slotnames__"}  # the last is added when an instance is pickled
PLAIN = (type(None), bool, int, float, complex, str, bytes)
OF_FUNCTION = ("__annotations__", "__dict__")
OF_MODULE = {"__name__", "__doc__", "__package__", "__loader__", "__spec__", "__builtins__"}  # do not count


class Closure:
    """A function and everything in the notebook that it refers to, directly or indirectly.

    `form` is a plain nested list that represents the function, the same in every process. `sources` are the
    source texts as written, in the order of discovery. `constants` are the values of the other names it
    refers to. `cells` are the complete sources of the notebook cells that define them, which a rank needs to
    show lines in a traceback. `modules` are the names of the student's modules that define them. `texts` are
    the imported modules, with their sources. `unstable` names what has no value that can be compared.
    `paths` are the values that may name a file, `strings` all strings, also in code, and `asks_environment`
    tells whether any code reads environment variables.
    """

    def __init__(self, target: Any, arguments: dict[Any, Any] | None = None):
        self.sources: list[str] = []
        self.cells: dict[str, str] = {}
        self.modules: set[str] = set()
        self.texts: modules.Texts = {}
        self.constants: dict[str, Any] = {}
        self.unstable: dict[str, str] = {}
        self.paths: set[str] = set()
        self.strings: set[str] = set()
        self.asks_environment = False
        self._where = "it"
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []  # ids are compared, so no object may be freed meanwhile
        self._parts: list[Any] = []
        values = [self._encode(target)]
        if arguments is not None:
            values.append(["dict", [[self._plain(k), self._at(f"the argument `{k}`", v)]
                                    for k, v in arguments.items()]])  # fmt: skip
        self.form = [values, self._parts, texts_form(self.texts)]
        for file, text in self.texts.values():
            self.reads(compile(text, file, "exec", dont_inherit=True))

    def reads(self, code: types.CodeType) -> None:
        """Add the strings of code, and whether it reads environment variables."""
        self.strings |= set(reads.strings(code))
        self.asks_environment |= reads.asks_environment(code)

    def _at(self, where: str, v: Any) -> Any:
        before, self._where = self._where, where
        try:
            return self._encode(v)
        finally:
            self._where = before

    def _plain(self, v: Any) -> Any:
        if isinstance(v, (str, bytes)):
            self.strings.add(os.fsdecode(v))
        return [type(v).__name__, repr(v)]

    def _encode(self, v: Any) -> Any:
        if type(v) in PLAIN:
            if isinstance(v, (str, bytes)) and reads.is_name(text := os.fsdecode(v)):
                self.paths.add(text)
            return self._plain(v)
        if id(v) in self._seen:
            return ["seen", self._seen[id(v)]]
        if isinstance(v, types.ModuleType) and not is_made(v):
            return self._module(v)
        if isinstance(v, (type, types.FunctionType, types.BuiltinFunctionType)) and (name := named(v)):
            self.asks_environment |= v is os.getenv or v is os.path.expandvars
            return ["name", *name]
        self._seen[id(v)] = len(self._seen)
        self._alive.append(v)
        if type(v) in (list, tuple):
            return [type(v).__name__, [self._encode(x) for x in v]]
        if isinstance(v, (set, frozenset, weakref.WeakSet)):
            more = [self._encode(x) for x in (type(v), getattr(v, "__dict__", {}))]
            more = [] if type(v) in (set, frozenset, weakref.WeakSet) else more
            return [type(v).__name__, [self._encode(x) for x in self._sorted(list(v))], *more]
        if type(v) is dict:  # the order of keys counts, since a program can see it
            return ["dict", [[self._encode(k), self._encode(x)] for k, x in v.items()]]
        try:
            return self._by_kind(v)
        except Exception as e:  # pickle could not send it either, or only in part
            kind = f"{type(v).__module__}.{type(v).__qualname__}".removeprefix("builtins.")
            self.unstable.setdefault(self._where, f"{kind}: {e}")
            return ["unstable"]

    def _by_kind(self, v: Any) -> Any:
        if isinstance(v, types.FunctionType):
            return self._function(v)
        if isinstance(v, type):
            return self._class(v)
        if isinstance(v, types.ModuleType):
            return ["module made", v.__name__, self._encode(
                {k: x for k, x in vars(v).items() if not k.startswith("__")})]  # fmt: skip
        if isinstance(v, (staticmethod, classmethod)):
            return [type(v).__name__, self._encode(v.__func__)]
        if type(v) is property:
            return ["property", [self._encode(f) for f in (v.fget, v.fset, v.fdel)]]
        if isinstance(v, pathlib.PurePath) and type(v).__module__ == "pathlib":
            return [type(v).__name__, self._encode(str(v))]
        if isinstance(v, typing.TypeVar):
            bounds = [v.__bound__, v.__constraints__, v.__covariant__, v.__contravariant__]
            return ["TypeVar", v.__name__, self._encode(bounds)]
        if type(v).__module__ == "numpy" and hasattr(v, "tobytes") and not v.dtype.hasobject:
            return self._array(v)
        if keras_objects.is_variable(v):
            return ["variable", self._encode(v.numpy()), v.trainable]
        if keras_objects.is_keras(v):
            return ["keras", self._encode(type(v)), self._encode(keras_objects.description(v))]
        return self._object(v)

    def _key(self, k: Any) -> Any:
        return self._plain(k) if type(k) in PLAIN else self._encode(k)

    def _sorted(self, elements: list[Any]) -> list[Any]:
        """Return the elements of a set in an order that is the same in every process."""
        return sorted(elements, key=lambda x: json.dumps(self._alone(x)))

    def _alone(self, v: Any) -> Any:
        """Encode a value without remembering it."""
        if type(v) in PLAIN:
            return self._plain(v)
        other = copy.copy(self)
        other._seen, other._parts = dict(self._seen), list(self._parts)
        form = other._encode(v)
        return [form, other._parts[len(self._parts) :]]

    def _array(self, v: Any) -> Any:
        content = hashlib.sha256(v.tobytes()).hexdigest()
        form = [type(v).__name__, v.dtype.str, list(v.shape), content]
        if v.dtype.fields or v.dtype.metadata or v.dtype.subdtype:
            form.append(self._encode(v.dtype))
        return [*form, "F"] if v.flags.fnc else form

    def _object(self, v: Any) -> Any:
        """Encode an object as what pickle sends of it."""
        if v is os.environ:
            self.asks_environment = True
        reduced = pickling.reduction(v)
        if isinstance(reduced, str):
            if name := named(v, reduced):
                return ["name", *name]
            raise TypeError(f"{reduced} is not what an installed module has by this name")
        function, arguments, *others = reduced
        state, items, pairs, setter = others + [None] * (4 - len(others))
        pairs = None if pairs is None else [[self._key(k), self._encode(x)] for k, x in pairs]
        items = None if items is None else [self._encode(x) for x in items]
        if isinstance(state, dict):
            state = ["dict", [[self._key(k), self._encode(x)] for k, x in state.items()]]
        else:
            state = self._encode(state)
        return [
            "object",
            self._encode(function),
            self._encode(arguments),
            state,
            items,
            pairs,
            self._encode(setter),
        ]

    def _module(self, module: types.ModuleType) -> Any:
        name = module.__name__
        if name != "__main__" and name not in self.texts and is_local(module):
            for n, m in list(sys.modules.items()):  # submodules are accessible through the module
                file = getattr(m, "__file__", None)
                if (n == name or n.startswith(f"{name}.")) and file and is_local(m):
                    modules.add(self.texts, n, file, sys.path)
        return ["module", name]

    def _function(self, f: types.FunctionType) -> Any:
        index = len(self._parts)
        self._parts.append(None)
        theirs = modules.installed(f.__code__.co_filename)  # a wrapper made by an installed decorator
        text = None if theirs else source(f)
        if text is not None:
            self.sources.append(textwrap.dedent(text))
            self._keep_cell(f.__code__.co_filename)
            self._imports(f, text)
        if is_local(f) and f.__module__ != "__main__":
            self.modules.add(f.__module__)
        if not theirs:
            self.reads(f.__code__)
        found = [] if theirs else global_names(f.__code__)
        refers = {n: f.__globals__[n] for n in found if n in f.__globals__ and n not in OF_MODULE}
        refers |= closed_over(f)
        for n, v in refers.items():
            if not isinstance(v, (type, types.FunctionType, types.ModuleType)):
                self.constants[n] = v
        more = {n: x for n in OF_FUNCTION if (x := getattr(f, n))}
        more |= {} if f.__name__ == f.__code__.co_name else {"__name__": f.__name__}
        self._parts[index] = [
            [f.__code__.co_qualname, self._bytecode(f.__code__)]
            if theirs
            else self._code(f, text if is_current(f.__code__) else None),
            self._encode(f.__defaults__),
            self._encode(f.__kwdefaults__),
            [[n, self._at(f"the variable `{n}`", refers[n])] for n in sorted(refers)],
            *([self._encode(more)] if more else []),
        ]
        return ["function", index]

    def _code(self, f: types.FunctionType, text: str | None) -> Any:
        """Encode a function as syntax if its source contains nothing else, or as bytecode."""
        if text is not None:
            with contextlib.suppress(SyntaxError):
                if f.__code__.co_name != "<lambda>":
                    return normalise(text)
                lambdas = [n for n in ast.walk(ast.parse(textwrap.dedent(text))) if isinstance(n, ast.Lambda)]
                if len(lambdas) == 1:
                    return ast.unparse(lambdas[0])
        return self._bytecode(f.__code__)

    def _bytecode(self, code: types.CodeType) -> Any:
        consts = [
            self._bytecode(c) if isinstance(c, types.CodeType) else self._constant(c) for c in code.co_consts
        ]
        names = [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]
        arguments = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
        return [code.co_code.hex(), consts, *map(list, names), arguments, code.co_exceptiontable.hex()]

    def _constant(self, v: Any) -> Any:
        """Encode a constant of code: a plain value, Ellipsis, or a tuple or frozenset of these."""
        if isinstance(v, (tuple, frozenset)):
            inside = [self._constant(x) for x in v]
            return [type(v).__name__, sorted(inside, key=json.dumps) if isinstance(v, frozenset) else inside]
        return self._plain(v)

    def _imports(self, f: types.FunctionType, text: str) -> None:
        with contextlib.suppress(SyntaxError):  # source that is only part of a statement, as for a lambda
            tree = ast.parse(textwrap.dedent(text))
            modules.follow(self.texts, tree, f.__globals__.get("__package__") or "", sys.path)

    def _class(self, c: type) -> Any:
        index = len(self._parts)
        self._parts.append(None)
        text = class_source(c)
        if text is not None:
            self.sources.append(textwrap.dedent(text))
        if is_local(c) and c.__module__ != "__main__":
            self.modules.add(c.__module__)
        inside = {n: v for n, v in vars(c).items() if n not in SKIP and (n != "__annotations__" or v)}
        described = len(self.sources)
        self._parts[index] = [
            c.__name__,
            [self._encode(b) for b in c.__bases__],
            [[n, self._encode(inside[n])] for n in sorted(inside)],
            *([] if type(c) is type else [self._encode(type(c))]),
        ]
        if text is not None:  # the methods already represent the class
            methods = {
                textwrap.dedent(s) for v in inside.values() if (s := source(getattr(v, "__func__", v)))
            }
            self.sources[described:] = [s for s in self.sources[described:] if s not in methods]
        return ["class", index]

    def _keep_cell(self, filename: str) -> None:
        if filename not in self.cells and not Path(filename).exists():
            lines = linecache.getlines(filename)
            if lines:
                self.cells[filename] = "".join(lines)


def digest(form: Any) -> str:
    """Return the SHA-256 of a plain nested list, in hexadecimal."""
    return hashlib.sha256(json.dumps(form, sort_keys=True).encode()).hexdigest()


def is_made(module: types.ModuleType) -> bool:
    """Return whether a module was made at run time, so that a rank cannot import it by its name."""
    if type(module) is not types.ModuleType or module.__name__ == "__main__":
        return False
    return sys.modules.get(module.__name__) is not module or module.__spec__ is None


def source(f: Any) -> str | None:
    """Return the source of a function as written, or None if there is none."""
    try:
        return inspect.getsource(getattr(f, "__code__", f))  # not the source of a function that f wraps
    except (OSError, TypeError, IndentationError, SyntaxError):
        return None


def is_current(code: types.CodeType) -> bool:
    """Return whether the source of a code object is still its own: not edited since, nor only similar."""
    lines = linecache.getlines(code.co_filename)
    return code in _codes("".join(lines), code.co_filename)


@functools.lru_cache(100)
def _codes(text: str, filename: str) -> set[types.CodeType]:
    """Return all code objects of a source; none if it is not Python."""
    found: set[types.CodeType] = set()
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    with contextlib.suppress(SyntaxError, ValueError):
        todo = [compile(text, filename, "exec", flags, dont_inherit=True)]
        while todo:
            code = todo.pop()
            found.add(code)
            todo += [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return found


def class_source(c: type) -> str | None:
    """Return the source of a class, found through one of its methods if it was defined in a notebook."""
    text = source(c)
    if text is not None:
        return text
    for v in vars(c).values():
        code = getattr(getattr(v, "__func__", v), "__code__", None)
        text = "".join(linecache.getlines(code.co_filename)) if code else ""
        try:
            nodes = [
                n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ClassDef) and n.name == c.__name__
            ]
        except SyntaxError:
            continue
        if nodes:
            return ast.get_source_segment(text, nodes[-1])
    return None


def global_names(code: types.CodeType) -> set[str]:
    """Return the names that a code object and its nested ones look up as globals, without attributes."""
    names = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*(global_names(c) for c in code.co_consts if isinstance(c, types.CodeType)))


def closed_over(f: types.FunctionType) -> dict[str, Any]:
    """Return {name: value} for the bound variables of enclosing functions that a function uses."""
    variables = {}
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # an empty cell: the variable is not assigned yet
            variables[name] = cell.cell_contents
    return variables


def normalise(text: str) -> str:
    """Return Python source without comments, formatting and docstrings.

    >>> normalise("def f( x ):\\n    'doc'\\n    return x  # same")
    'def f(x):\\n    return x'
    """
    tree = ast.parse(textwrap.dedent(text))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)) and body:
            first = body[0]
            if isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str):
                node.body = body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def texts_form(texts: modules.Texts) -> Any:
    """Return the modules as [[name, syntax], …], sorted by name."""
    return [[name, normalise(text)] for name, (_, text) in sorted(texts.items())]


def script_form(path: Path) -> tuple[Any, modules.Texts]:
    """Return (the syntax of a script and of the student's modules that it imports; these modules)."""
    text = modules.read(path)
    texts: modules.Texts = {}
    modules.follow(texts, modules.parse(text, str(path)), "", [str(path.parent), *sys.path])
    return [normalise(text), texts_form(texts)], texts
