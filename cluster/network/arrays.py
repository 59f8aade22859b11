"""Arrays that represent data by their size only, or by the ranks that contributed to each element."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from .chunks import bounds
from .errors import SizeMismatch, WrongSum


class Placeholder:
    """A vector of n elements that keeps only their number and type, for timing.

    1,024 ranks can therefore reduce 100 MB each on a laptop. Its values do not exist and cannot be read.
    """

    __slots__ = ("dtype", "size")
    ndim = 1

    def __init__(self, size: int, dtype: Any = np.float32):
        self.size, self.dtype = int(size), np.dtype(dtype)

    @property
    def shape(self) -> tuple[int]:
        """The shape, (n,)."""
        return (self.size,)

    @property
    def nbytes(self) -> int:
        """Number of bytes that the array would occupy."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"Placeholder({self.size}, {self.dtype.name})"

    def __getitem__(self, part: slice) -> Placeholder:
        if part is ...:
            return self
        if not isinstance(part, slice):
            raise TypeError(f"A Placeholder has no values, so x[{part!r}] has no value: use a slice.")
        return Placeholder(len(range(*part.indices(self.size))), self.dtype)

    def __setitem__(self, part: slice, value: Any) -> None:
        self[part] + value

    def __add__(self, other: Any) -> Placeholder:
        if getattr(other, "size", 1) not in (1, self.size):
            raise SizeMismatch(f"{other.size} elements and {self.size} elements cannot be added.")
        return self

    __radd__ = __iadd__ = __sub__ = __isub__ = __mul__ = __imul__ = __rmul__ = __add__
    __truediv__ = __itruediv__ = __add__

    def copy(self, memo: Any = None) -> Placeholder:
        """Return the same object, because there are no values that could differ."""
        return self

    __deepcopy__ = copy

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        """Implement the functions of NumPy that slice arrays, create arrays like another, or join them."""
        if function in (np.array_split, np.split):
            x, parts = args[:2]
            if not isinstance(parts, int):
                ends = [0, *parts, x.size]
            elif function is np.split and x.size % parts:
                raise ValueError(f"{x.size} elements do not divide into {parts} parts: use np.array_split.")
            else:
                ends = bounds(x.size, parts)
            return [x[a:b] for a, b in itertools.pairwise(ends)]
        if function in (np.empty_like, np.zeros_like, np.ones_like, np.copy):
            return Placeholder(args[0].size, keywords.get("dtype") or args[0].dtype)
        if function in (np.shape, np.size, np.ndim):
            return getattr(args[0], function.__name__)
        if function is np.concatenate:
            return Placeholder(sum(x.size for x in args[0]), args[0][0].dtype)
        raise TypeError(f"np.{function.__name__} needs values, and a Placeholder has none: use an array.")


def message_bytes(x: np.ndarray | Placeholder) -> int:
    """Return the bytes of a message: its elements, and the part of its form that the elements do not imply.

    These are 8 bytes for each dimension beyond two. Without elements, they are 8 for each dimension beyond
    one, and 8 for a length of text. A vector or a matrix of numbers therefore has exactly its elements.
    """
    dimensions = max(0, x.ndim - 2)
    if not x.size:
        dimensions = max(0, x.ndim - 1) + (x.dtype.kind in "SU")
    return x.nbytes + 8 * dimensions


def tagged(rank: int, n: int) -> np.ndarray:
    """Return a rank's tagged contribution, (n,) Python integers, so that a sum shows who contributed.

    In a sum of such arrays, byte r of each element counts how often rank r has contributed to it, up to 255.
    """
    return np.array([1 << 8 * rank] * n, object)


def contributions(x: Iterable[Any], ranks: int) -> np.ndarray:
    """Return how often each rank contributed to each element of a sum of `tagged` arrays, (n, ranks).

    Raises WrongSum if an element is not such a sum, and ValueError if it was rounded and is unreadable.
    """
    values = [_whole(i, value) for i, value in enumerate(x)]
    counts = [[value >> 8 * rank & 255 for rank in range(ranks)] for value in values]
    return np.array(counts, int).reshape(-1, ranks)


def _whole(i: int, value: Any) -> int:
    if isinstance(value, np.floating) and abs(value) >= 2.0 ** (np.finfo(value).nmant + 1):
        raise ValueError(
            f"element {i} was rounded to {value.dtype}: keep sums in the type of x (np.zeros_like(x)), "
            "or use fewer ranks."
        )
    try:
        whole = int(value)
    except (TypeError, ValueError, OverflowError):
        whole = -1
    if whole < 0 or whole != value:
        raise WrongSum(f"element {i} is {value}, which is not a sum of values that the ranks sent.")
    return whole
