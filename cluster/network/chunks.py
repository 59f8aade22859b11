"""Division of a vector into chunks."""


def bounds(n: int, parts: int) -> list[int]:
    """Return the parts + 1 indices that divide n elements into nearly equal parts, longer parts first.

    >>> bounds(10, 4)
    [0, 3, 6, 8, 10]
    """
    return [i * (n // parts) + min(i, n % parts) for i in range(parts + 1)]
