"""The attributes of `Job` and `Sweep`, which import this package, that are needed to display them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from ..errors import JobFailed
from ..run.run_folder import RunRecord
from ..run.status import Status


class Shown(Protocol):
    """A job or a sweep, as far as needed to display it."""

    spec: RunRecord
    name: str
    ranks: int
    backend: str

    @property
    def folder(self) -> Path: ...

    @property
    def status(self) -> Status: ...


class ShownJob(Shown, Protocol):
    """A job, as far as needed to display it."""

    @property
    def id(self) -> str: ...

    def error(self) -> JobFailed | None: ...


class ShownSweep(Shown, Protocol):
    """A sweep, as far as needed to display it: a sequence of jobs."""

    @property
    def items(self) -> Sequence[Any]: ...

    @property
    def statuses(self) -> list[Status]: ...

    def here(self, i: int) -> bool: ...

    def __len__(self) -> int: ...

    def __getitem__(self, i: Any) -> Any: ...
