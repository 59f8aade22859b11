"""The backends' protocol lists the functions that both backends have, and callers use no others."""

import inspect
import typing

import pytest

from cluster import jobs
from cluster.jobs import backends
from cluster.jobs.backends import local, slurm
from cluster.jobs.backends.protocol import Backend
from cluster.jobs.run import status

from . import programs, sweeps

NAMES = sorted(n for n, v in vars(Backend).items() if inspect.isfunction(v) and not n.startswith("_"))


def described(function):
    """Return [(name, kind, default, type)] of the parameters, and the type of the return value."""
    types = typing.get_type_hints(function)
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    return [(p.name, p.kind, p.default, types[p.name]) for p in parameters], types["return"]


@pytest.mark.parametrize("module", [local, slurm], ids=["local", "slurm"])
@pytest.mark.parametrize("name", NAMES)
def test_a_backend_has_the_function_with_the_signature_of_the_protocol(module, name):
    assert described(getattr(module, name)) == described(getattr(Backend, name))


def test_what_both_backends_offer_is_in_the_protocol():
    """Is each public function that both backends have part of the protocol?"""
    offered = [
        {n for n, v in vars(m).items() if inspect.isfunction(v) and v.__module__ == m.__name__}
        for m in (local, slurm)
    ]
    assert {n for n in offered[0] & offered[1] if not n.startswith("_")} == set(NAMES)


class Only:
    """A backend that has only the protocol's functions. `called` collects the names of the functions
    called."""

    def __init__(self, module):
        self.called = set()
        for name in NAMES:
            setattr(self, name, self._counted(name, getattr(module, name)))

    def _counted(self, name, function):
        def counted(*args, **kwargs):
            self.called.add(name)
            return function(*args, **kwargs)

        return counted


def test_nothing_else_is_called_on_a_backend(runs, tmp_path, monkeypatch):
    """Do jobs and sweeps, from submission to end, call all of the protocol's functions and no others?"""
    only = Only(local)
    monkeypatch.setattr(backends, "get", lambda name: only)
    monkeypatch.setattr(status, "_backend", lambda name: only)  # status imports the backend's module itself
    job = jobs.submit(programs.sleeps, 60)
    assert "local_launcher" not in job.script() and job.script(backend="slurm") and job.status == "running"
    assert job.cancel().status == "cancelled"
    sweep = jobs.map(sweeps.waits, [1, 2], place=str(tmp_path))
    assert sweep.script() and sweep.cancel().status == "cancelled"
    (job.folder / "end.json").unlink()
    (job.folder / "backend.json").unlink()  # as after an interrupted submission
    assert job.status == "lost"
    assert only.called == set(NAMES)
