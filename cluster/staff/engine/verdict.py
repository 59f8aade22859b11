"""What the engine is allowed to spend on a submission, and what it says about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, TypedDict, cast

if TYPE_CHECKING:
    from nbformat import NotebookNode

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """Of one submission. Times in seconds of the wall clock less what neighbours took, sizes in bytes."""

    cell: float = 60  # one cell of the student's
    check: float = 180  # one check
    total: float = 300  # the budget of a submission: all cells, checks and trials on ranks together
    memory: int = 4096 * MIB  # private data of one process; of all together where cgroups can be used
    disk: int = 256 * MIB  # each of the work folder, /tmp and /dev/shm; and one file
    files: int = 200 * MIB  # what was handed in
    output: int = 2 * MIB  # of all cells together
    processes: int = 1024  # and threads

    def of_process(self) -> dict[str, int]:
        """What a process that runs code of the student's sets for itself (inside/student.py)."""
        cpu = int(self.total * 4)
        return {"memory": self.memory, "processes": self.processes, "size": self.disk, "cpu": cpu}


@dataclass
class Check:
    """One graded cell; `hidden` says that what failed is not to be shown, `kind` how (failures.py)."""

    score: float
    max_score: float
    error: str = ""
    hidden: bool = False
    seconds: float = 0.0
    kind: str = ""


class CheckRecord(TypedDict):
    """A Check as plain data."""

    score: float
    max_score: float
    error: str
    hidden: bool
    seconds: float
    kind: str


class VerdictRecord(TypedDict):
    """A Verdict as plain data: what the grading folder keeps."""

    outcome: str
    why: str
    checks: dict[str, CheckRecord]
    notebook: NotebookNode | None
    seconds: float
    output_cut: bool
    output_replaced: bool
    alone: bool
    slow: list[str]


@dataclass
class Verdict:
    """outcome: "graded", or "again" where the infrastructure failed; `why` says how.

    alone: others had the processors, so it is to be graded again without them.
    """

    outcome: str
    why: str = ""
    checks: dict[str, Check] = field(default_factory=dict)
    notebook: NotebookNode | None = None  # with outputs
    seconds: float = 0.0
    output_cut: bool = False
    output_replaced: bool = False  # text in no encoding was
    alone: bool = False
    slow: list[str] = field(default_factory=list)  # which cells and checks met a limit of time, as text

    def to_json(self) -> VerdictRecord:
        """As plain data."""
        return {
            "outcome": self.outcome,
            "why": self.why,
            "checks": {name: cast(CheckRecord, asdict(check)) for name, check in self.checks.items()},
            "notebook": self.notebook,
            "seconds": round(self.seconds, 3),
            "output_cut": self.output_cut,
            "output_replaced": self.output_replaced,
            "alone": self.alone,
            "slow": self.slow,
        }
