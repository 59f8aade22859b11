"""The cache key of a run: a hash of everything provided by the student that can change its result.

The key covers the code of the function, of the notebook's functions and classes it refers to, the values
of the constants it refers to, its arguments and its resources. Code is compared as syntax, so comments,
formatting and docstrings do not count. Installed packages count by name only; their versions are recorded.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import functools
import hashlib
import inspect
import json
import linecache
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

from . import modules

SKIP = {"__module__", "__dict__", "__weakref__", "__doc__", "__firstlineno__", "__static_attributes__"}
SKIP |= {"__dataclass_fields__", "__dataclass_params__", "__abstractmethods__", "__match_args__"}


class Closure:
    """A function and everything in the notebook that it refers to, directly or indirectly.

    `form` is a plain nested list that represents the function, the same in every process. `sources` are the
    source texts as written, in the order of discovery. `constants` are the values of the other names it
    refers to. `cells` are the complete sources of the notebook cells that define them, which a rank needs to
    show lines in a traceback. `modules` are the names of the student's modules that define them. `texts` are
    the imported modules, with their sources.
    """

    def __init__(self, *values: Any):
        self.sources: list[str] = []
        self.cells: dict[str, str] = {}
        self.modules: set[str] = set()
        self.texts: modules.Texts = {}
        self.constants: dict[str, Any] = {}
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []  # ids are compared, so no object may be freed meanwhile
        self._parts: list[Any] = []
        self.form = [[self._encode(v) for v in values], self._parts]
        self.form.append(texts_form(self.texts))

    def _encode(self, v: Any) -> Any:
        if v is None or (
            isinstance(v, (bool, int, float, complex, str, bytes)) and type(v).__module__ == "builtins"
        ):
            return [type(v).__name__, repr(v)]
        if isinstance(v, types.ModuleType):
            return self._module(v)
        if isinstance(v, (type, types.FunctionType, types.BuiltinFunctionType)) and not is_local(v):
            return ["name", getattr(v, "__module__", None), getattr(v, "__qualname__", repr(v))]
        if id(v) in self._seen:
            return ["seen", self._seen[id(v)]]
        self._seen[id(v)] = len(self._seen)
        self._alive.append(v)
        if type(v) in (list, tuple):
            return [type(v).__name__, [self._encode(x) for x in v]]
        if type(v) in (set, frozenset):
            return [type(v).__name__, sorted((self._encode(x) for x in v), key=json.dumps)]
        if type(v) is dict:
            return [
                "dict",
                sorted(([self._encode(k), self._encode(x)] for k, x in v.items()), key=json.dumps),
            ]
        if isinstance(v, types.FunctionType):
            return self._function(v)
        if isinstance(v, type):
            return self._class(v)
        if isinstance(v, types.MethodType):
            return ["method", v.__name__, self._encode(v.__self__), self._encode(v.__func__)]
        if isinstance(v, (staticmethod, classmethod)):
            return [type(v).__name__, self._encode(v.__func__)]
        if isinstance(v, property):
            return ["property", [self._encode(f) for f in (v.fget, v.fset, v.fdel)]]
        if isinstance(v, functools.partial):
            return ["partial", self._encode(v.func), self._encode(v.args), self._encode(v.keywords)]
        if callable(v) and hasattr(v, "__wrapped__"):  # functools.cache, tf.function
            return ["wrapper", type(v).__qualname__, self._encode(v.__wrapped__)]
        if type(v).__module__ == "numpy" and hasattr(v, "tobytes") and not v.dtype.hasobject:
            return [type(v).__name__, v.dtype.str, list(v.shape), hashlib.sha256(v.tobytes()).hexdigest()]
        if is_keras(v):
            return self._keras(v)
        return self._object(v)

    def _keras(self, v: Any) -> Any:
        """Identify a Keras object by its configuration and weights, since its pickle contains a time."""
        try:
            config = numbered_names(v.get_config())
        except (NotImplementedError, TypeError, ValueError):  # a subclass without a configuration
            config = None
        if hasattr(v, "get_compile_config"):
            config = [config, numbered_names(v.get_compile_config() or {})]
        if isinstance(v, sys.modules["keras"].Loss):  # for example, Huber's delta is not in its configuration
            config = [config, getattr(v, "_fn_kwargs", {})]
        variables = getattr(v, "weights", None) or getattr(v, "variables", None) or []
        numbers = [self._encode(variable.numpy()) for variable in variables]
        return ["keras", self._encode(type(v)), self._encode(config), numbers]

    def _object(self, v: Any) -> Any:
        try:
            reduced = v.__reduce_ex__(4)
            if isinstance(reduced, str):
                return ["name", type(v).__module__, reduced]
            return ["object", [self._encode(list(x) if hasattr(x, "__next__") else x) for x in reduced]]
        except Exception:  # cannot be pickled, so only its type counts
            return ["opaque", type(v).__module__, type(v).__qualname__]

    def _module(self, module: types.ModuleType) -> Any:
        name = module.__name__
        if name != "__main__" and name not in self.texts and is_local(module):
            for n, m in list(sys.modules.items()):  # submodules are accessible through the module
                if (n == name or n.startswith(f"{name}.")) and m.__file__ and is_local(m):
                    modules.add(self.texts, n, m.__file__, sys.path)
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
        names = [] if theirs else global_names(f.__code__)
        names = [n for n in names if n in f.__globals__ and not n.startswith("__")]
        refers = {n: f.__globals__[n] for n in names} | closed_over(f)
        for n, v in refers.items():
            if not isinstance(v, (type, types.FunctionType, types.ModuleType)):
                self.constants[n] = v
        self._parts[index] = [
            f.__code__.co_qualname if theirs else code_form(f, text),
            self._encode(f.__defaults__),
            self._encode(f.__kwdefaults__),
            [[n, self._encode(refers[n])] for n in sorted(refers)],
        ]
        return ["function", index]

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
        if c.__module__ != "__main__":
            self.modules.add(c.__module__)
        inside = {n: v for n, v in vars(c).items() if n not in SKIP and not n.startswith("_abc")}
        described = len(self.sources)
        self._parts[index] = [
            c.__name__,
            [self._encode(b) for b in c.__bases__],
            [[n, self._encode(inside[n])] for n in sorted(inside)],
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


def is_keras(v: Any) -> bool:
    """Return whether a value is a model, a layer, an optimizer, a loss or a metric of Keras."""
    keras = sys.modules.get("keras")
    if keras is None or not hasattr(keras, "Layer"):
        return False
    return isinstance(v, (keras.Layer, keras.Optimizer, keras.Loss, keras.Metric))


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


def digest(form: Any) -> str:
    """Return the SHA-256 of a plain nested list, in hexadecimal."""
    return hashlib.sha256(json.dumps(form, sort_keys=True).encode()).hexdigest()


def is_local(v: Any) -> bool:
    """Return whether a function, class or module is the student's: neither installed nor in this package."""
    module = v if isinstance(v, types.ModuleType) else sys.modules.get(getattr(v, "__module__", None) or "")
    if module is None:
        return isinstance(v, (types.FunctionType, type))
    if module.__name__ == "__main__":
        return True
    path = getattr(module, "__file__", None)
    if not path:
        return False
    return not modules.installed(path)


def source(f: Any) -> str | None:
    """Return the source of a function as written, or None if there is none."""
    try:
        return inspect.getsource(getattr(f, "__code__", f))  # not the source of a function that f wraps
    except (OSError, TypeError, IndentationError, SyntaxError):
        return None


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


def code_form(f: types.FunctionType, text: str | None) -> Any:
    """Return a function as syntax if its source is available and contains nothing else, else as bytecode."""
    if text is not None:
        try:
            if f.__name__ != "<lambda>":
                return normalise(text)
            lambdas = [n for n in ast.walk(ast.parse(textwrap.dedent(text))) if isinstance(n, ast.Lambda)]
            if len(lambdas) == 1:
                return ast.unparse(lambdas[0])
        except SyntaxError:
            pass
    return _bytecode(f.__code__)


def _bytecode(code: types.CodeType) -> Any:
    consts = [_bytecode(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
    return [code.co_code.hex(), consts, list(code.co_names), list(code.co_varnames), list(code.co_freevars)]


def texts_form(texts: modules.Texts) -> Any:
    """Return the modules as [[name, syntax], …], sorted by name."""
    return [[name, normalise(text)] for name, (_, text) in sorted(texts.items())]


def script_form(path: Path) -> tuple[Any, modules.Texts]:
    """Return (the syntax of a script and of the student's modules that it imports; these modules)."""
    text = path.read_text()
    texts: modules.Texts = {}
    modules.follow(texts, modules.parse(text, str(path)), "", [str(path.parent), *sys.path])
    return [normalise(text), texts_form(texts)], texts
