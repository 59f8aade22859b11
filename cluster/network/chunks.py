"""Where a vector is cut into chunks."""


def bounds(n: int, parts: int) -> list[int]:
    """Where n elements are cut into parts as equal as can be, the longer first: parts + 1 indices.

    >>> bounds(10, 4)
    [0, 3, 6, 8, 10]
    """
    return [i * (n // parts) + min(i, n % parts) for i in range(parts + 1)]
