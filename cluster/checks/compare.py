"""Comparison for AUTOTEST directives: a value is encoded as text at release time and compared in a check.

nbgrader runs `# AUTOTEST expression` on the reference solution, takes the *text* of the result and writes a
check with that text into the notebook (templates: autotests.yml). Its own templates compare rounded text:
values near a rounding boundary fail, long arrays are shortened to `...`, and float64 passes for float32. Here
the text contains the complete value, bit by bit, and the check compares *values* with a tolerance:

    autotest(im2col(x, k=2)).matches("WyJhcnJheSIs…", "im2col(x, k=2)")

The text is base64, so the answer is not visible on the page, but it can be decoded, because a comparison
with a tolerance needs the value itself. If a guessable exact answer matters (a number of FLOPs, a shape),
`# HASHED AUTOTEST` stores only a salted, slow hash. Secrets belong in a hidden test.

What counts as equal
    bool, int, str, bytes, None   the same kind and the same value (NumPy's scalars count as Python's)
    float, complex                within a tolerance; NaN equals NaN, -0.0 equals 0.0; an int is no float
    NumPy arrays                  shape, float dtype (float32 is not float64; integers of any width are one
                                  kind), every element within a tolerance
    tensors and variables         the same, and only another tensor or variable equals them
    lists, tuples, dicts, sets    element by element; the order of dicts and sets is ignored
    dtypes                        by name
Anything else is a TypeError when the release is made.

Tolerance: |got - want| <= rtol·|want| + atol with rtol = 1e-6 (float64 and Python floats), 1e-4 (float32),
1e-2 (half precision). atol is rtol/100 times the largest |want| of the array (1 if all are zero), because
rounding errors of sums grow with the largest term. `close(value, rtol=…, atol=…)` sets others.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import numpy as np

RTOL = {"float16": 1e-2, "bfloat16": 1e-2, "float32": 1e-4, "complex64": 1e-4}
RTOL_DOUBLE = 1e-6
FLOOR = 1e-15  # minimum absolute tolerance, because cos(π/2) evaluates to 6e-17 instead of 0
LONGEST = 20_000  # maximum characters of one expected value in a check

Tree = list  # an encoded value: [kind, ...], as in JSON


class Tolerant:
    """A value with its own tolerances, created by `close`."""

    def __init__(self, value: Any, rtol: float | None, atol: float | None):
        self.value, self.rtol, self.atol = value, rtol, atol


def close(value: Any, rtol: float | None = None, atol: float | None = None) -> Tolerant:
    """Return `value` with tolerances for its comparison: `# AUTOTEST close(losses, rtol=1e-2)`."""
    return Tolerant(value, rtol, atol)


class autotest:
    """A value as seen by the generated checks; `repr()` is the text written into the release."""

    def __init__(self, value: Any):
        self.rtol = self.atol = None
        if isinstance(value, Tolerant):
            value, self.rtol, self.atol = value.value, value.rtol, value.atol
        self.tree = encode(value)

    def __repr__(self) -> str:
        text = base64.b64encode(json.dumps([self.tree, self.rtol, self.atol]).encode()).decode()
        if len(text) > LONGEST:
            raise ValueError(
                f"AUTOTEST would write {len(text)} characters into the release (limit {LONGEST}): "
                "test a slice, a sum or a smaller case"
            )
        return text

    def matches(self, text: str, name: str) -> None:
        """Unless `text` encodes this value, raise AssertionError with the difference (never the value)."""
        tree, rtol, atol = json.loads(base64.b64decode(text))
        difference = compare(self.tree, tree, rtol, atol)
        if difference:
            raise AssertionError(f"{name} {difference}")

    def hashed(self, salt: str) -> Hashed:
        """Return a salted hash of the value, which must be exact, for `# HASHED AUTOTEST`."""
        return Hashed(self.tree, salt)


def expect(got: Any, want: Any, hints: dict[str, Any] | None = None, name: str = "your result") -> None:
    """For handwritten checks: assert that `got` equals `want` by the rules above.

    `hints` is {misconception: the result it produces, or a function that computes it}. If `got` equals one of
    these results, the AssertionError names the misconception instead of only reporting a difference. The
    functions are called only if `got` is wrong, so a right answer does not pay for them.
    """
    found = encode(got)
    difference = compare(found, encode(want))
    if difference:
        for words, wrong in (hints or {}).items():
            lazy = callable(wrong) and not isinstance(wrong, type)  # a type is a dtype
            if not compare(found, encode(wrong() if lazy else wrong)):
                raise AssertionError(f"{name} {difference}. Likely: {words}")
        raise AssertionError(f"{name} {difference}.")


class Hashed:
    """A value that can be recognised but not read. A hash permits no tolerance, so floats are refused."""

    def __init__(self, tree: Tree, salt: str):
        if holds_floats(tree):
            # Raised for the author at release time, and for a student whose answer is a float.
            what = "is" if tree[0] == "float" else "holds"
            raise AssertionError(
                f"the result {what} a float; an exact value is expected, such as an int "
                "(HASHED AUTOTEST compares exactly; floats need AUTOTEST)"
            )
        # scrypt with 2 MiB takes some milliseconds per guess, so a million guesses take hours.
        digest = hashlib.scrypt(json.dumps(tree).encode(), salt=salt.encode(), n=2**11, r=8, p=1, dklen=20)
        self.digest = digest.hex()

    def __repr__(self) -> str:
        return self.digest

    def matches(self, text: str, name: str) -> None:
        if self.digest != text:
            raise AssertionError(f"{name} is not the expected value (or not of the expected type)")


def encode(value: Any) -> Tree:
    """Encode `value` as nested JSON-compatible lists [kind, …], identical in every run for any hash seed."""
    if value is None:
        return ["None"]
    if hasattr(value, "numpy") and hasattr(value, "shape"):  # tf.Tensor, tf.Variable, keras.Variable
        return ["tensor", *encode_array(np.asarray(value.numpy()))]
    if isinstance(value, np.ndarray):
        return ["array", *encode_array(value)]
    if isinstance(value, np.generic):
        rtol = RTOL.get(value.dtype.name)
        value = (
            float(value)  # type: ignore[arg-type]
            if value.dtype.name == "bfloat16"
            else value.item()
        )
        if isinstance(value, float | complex) and rtol:
            return [*encode(value)[:-1], rtol]
    if isinstance(value, bool | int | str):
        return [next(t.__name__ for t in (bool, int, str) if isinstance(value, t)), value]
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    if isinstance(value, float):
        return ["float", value, RTOL_DOUBLE]
    if isinstance(value, complex):
        return ["complex", [value.real, value.imag], RTOL_DOUBLE]
    if isinstance(value, list | tuple):
        return ["list" if isinstance(value, list) else "tuple", [encode(v) for v in value]]
    if isinstance(value, dict):
        items = ([encode(key), encode(v)] for key, v in value.items())
        return ["dict", sorted(items, key=lambda item: json.dumps(item[0]))]
    if isinstance(value, set | frozenset):
        return ["set", sorted((encode(v) for v in value), key=json.dumps)]
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return ["dtype", np.dtype(value).name]
    if type(value).__name__ == "DType" and hasattr(value, "as_numpy_dtype"):  # tf.float32
        return ["dtype", value.name]
    raise TypeError(
        f"AUTOTEST cannot compare a {type(value).__name__}: test a number, a string, an array, a tensor, "
        "or a list, tuple, dict or set of these"
    )


def encode_array(a: np.ndarray) -> Tree:
    """Return [dtype, shape, data]: data is little-endian elements in base64, or a text array's elements."""
    name = a.dtype.name
    if name in ("bfloat16", "float16"):
        a = a.astype(np.float32)
    if a.dtype.kind in "US":
        return ["str", list(a.shape), a.astype(str).ravel().tolist()]
    if a.dtype.kind not in "biufc":
        raise TypeError(f"AUTOTEST cannot compare an array of dtype {name}: use numbers, bools or text")
    if a.dtype.kind in "iu":
        name, a = "int", a.astype(np.int64)
    data = np.ascontiguousarray(a.astype(a.dtype.newbyteorder("<"))).tobytes()
    return [name, list(a.shape), base64.b64encode(data).decode()]


def holds_floats(tree: Tree) -> bool:
    """Return whether this encoded value contains a float or an array of floats."""
    kind, *payload = tree
    if kind in ("array", "tensor"):
        return payload[0] not in ("int", "bool", "str")
    if kind == "dict":
        return any(holds_floats(part) for item in payload[0] for part in item)
    if kind in ("list", "tuple", "set"):
        return any(map(holds_floats, payload[0]))
    return kind in ("float", "complex")


def decode_array(name: str, shape: list[int], data: Any) -> np.ndarray:
    """Return the array that `encode_array` encoded."""
    if name == "str":
        return np.array(data, dtype=str).reshape(shape)
    stored = {"int": "int64", "float16": "float32", "bfloat16": "float32"}.get(name, name)
    return np.frombuffer(base64.b64decode(data), np.dtype(stored).newbyteorder("<")).reshape(shape)


def compare(got: Tree, want: Tree, rtol: float | None = None, atol: float | None = None) -> str:
    """Describe how two encoded values differ without revealing `want`, or return ""."""
    kind = want[0]
    if got[0] != kind:
        return f"is {article(got)}; it should be {article(want)}"
    if kind in ("array", "tensor"):
        return compare_arrays(got[1:], want[1:], rtol, atol)
    if kind in ("float", "complex"):
        numbers = [np.asarray(t[1] if kind == "float" else complex(*t[1])) for t in (got, want)]
        wrong = differ(*numbers, rtol or want[2], atol)  # type: ignore[call-arg, arg-type]
        return f"is {numbers[0]:.6g}, which is not the expected value" if wrong.any() else ""
    if kind in ("list", "tuple", "dict"):
        if len(got[1]) != len(want[1]):
            return f"has {len(got[1])} elements; it should have {len(want[1])}"
        for i, (g, w) in enumerate(zip(got[1], want[1], strict=True)):
            where = f"[{i}]"
            if kind == "dict":
                if g[0] != w[0]:
                    return "does not have the expected keys"
                where, g, w = f"[{g[0][-1]!r}]", g[1], w[1]
            if difference := compare(g, w, rtol, atol):
                return f"at {where} {difference}"
        return ""
    if kind == "set":
        rest = list(got[1])
        for w in want[1]:
            match = next((i for i, g in enumerate(rest) if not compare(g, w, rtol, atol)), None)
            if match is None:
                return "lacks an expected element"
            rest.pop(match)
        return f"has {len(rest)} elements too many" if rest else ""
    return "" if got == want else f"is {got[-1]!r}, which is not the expected value"


def compare_arrays(got: Tree, want: Tree, rtol: float | None, atol: float | None) -> str:
    """Do what `compare` does, for two arrays encoded as [dtype, shape, data]."""
    if got[1] != want[1]:
        return f"has shape {tuple(got[1])}; it should have shape {tuple(want[1])}"
    if got[0] != want[0]:
        return f"has dtype {got[0]}; it should have dtype {want[0]}"
    g, w = decode_array(*got), decode_array(*want)
    wrong = differ(g, w, rtol or RTOL.get(want[0], RTOL_DOUBLE), atol) if w.dtype.kind in "fc" else g != w
    if not wrong.any():
        return ""
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"has {int(wrong.sum())} of {w.size} values wrong, the first at {list(first)}, where it is {g[first]}"
    )


def differ(got: np.ndarray, want: np.ndarray, rtol: float, atol: float | None) -> np.ndarray:
    """Return elementwise whether `got` is outside the tolerance of `want`. NaN and infinities must match."""
    finite = np.isfinite(want)
    largest = np.abs(want[finite]).max(initial=0.0)
    if atol is None:
        atol = max(rtol / 100 * (largest or 1.0), FLOOR)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore", over="ignore"):
        return ~(same | (finite & (np.abs(got - want) <= rtol * np.abs(want) + atol)))


def article(tree: Tree) -> str:
    """Return an encoded value's type with its article, such as 'an int' or 'a tuple'."""
    return {"None": "None", "int": "an int", "array": "an array"}.get(tree[0], f"a {tree[0]}")
