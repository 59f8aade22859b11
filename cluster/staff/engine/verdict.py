"""Limits for grading a submission, and the verdict on it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbformat import NotebookNode

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """Limits of one submission: wall-clock seconds without delays by other processes, and bytes."""

    cell: float = 60  # one student cell
    check: float = 180  # one check
    total: float = 300  # all cells, checks and trials on ranks together
    memory: int = 4096 * MIB  # private data of one process, or of all together if cgroups are available
    disk: int = 256 * MIB  # each of the work folder, /tmp and /dev/shm, and each file
    files: int = 200 * MIB  # all submitted files
    output: int = 2 * MIB  # outputs of all cells together
    processes: int = 1024  # processes and threads

    def of_process(self) -> dict[str, int]:
        """Return the limits that a process with student code sets for itself (inside/student.py)."""
        cpu = int(self.total * 4)
        return {"memory": self.memory, "processes": self.processes, "size": self.disk, "cpu": cpu}


@dataclass
class Check:
    """The result of one check. hidden: a hidden test failed. kind: how it failed (failures.py)."""

    score: float
    max_score: float
    error: str = ""
    hidden: bool = False
    seconds: float = 0.0
    kind: str = ""


@dataclass
class Verdict:
    """The result of grading a submission.

    outcome: "graded", or "again" if the infrastructure failed, for the reason `why`.
    alone: other processes delayed it, so grade it again without other submissions.
    seed: of the hidden tests' inputs (checks/draws.py).
    """

    outcome: str
    why: str = ""
    checks: dict[str, Check] = field(default_factory=dict)
    notebook: NotebookNode | None = None  # with outputs
    seconds: float = 0.0
    output_cut: bool = False
    output_replaced: bool = False  # characters without an encoding were replaced
    alone: bool = False
    seed: int = 0
    slow: list[str] = field(default_factory=list)  # sentences on cells and checks that reached a time limit

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as plain data, as stored in the grading folder."""
        return asdict(self)
