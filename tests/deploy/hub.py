"""The hub of the tests, and people who use it: the bench's, in a state folder under /var/tmp."""

from tests.bench.classroom import COURSE, PREFIX, ROOT, Hub, Person, ports, wait

__all__ = ["COURSE", "PREFIX", "ROOT", "Hub", "Person", "ports", "wait"]
