"""The attributes of `Job` and `Sweep`, which import this package, that are needed to display them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from ..errors import JobFailed
from ..run.run_folder import RunRecord
from ..run.status import Status


class ShownJob(Protocol):
    """A job, as far as needed to display it."""

    spec: RunRecord
    name: str
    ranks: int
    backend: str

    @property
    def id(self) -> str: ...

    @property
    def folder(self) -> Path: ...

    @property
    def status(self) -> Status: ...

    def error(self) -> JobFailed | None: ...

    def result(self, rank: int = 0, progress: bool = True) -> Any: ...

    def metrics(self, superseded: bool = False) -> Any: ...


class ShownSweep(Protocol):
    """A sweep, as far as needed to display it: a sequence of jobs."""

    spec: RunRecord
    name: str
    ranks: int
    backend: str
    folder: Path

    @property
    def items(self) -> Sequence[Any]: ...

    @property
    def status(self) -> Status: ...

    @property
    def statuses(self) -> list[Status]: ...

    def here(self, i: int) -> bool: ...

    def __len__(self) -> int: ...

    def __getitem__(self, i: Any) -> Any: ...
