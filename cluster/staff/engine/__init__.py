"""Grade one submission: no student code runs outside a sandbox, and no points are decided inside it.

engine             starts the processes, enforces the time limits, writes the verdict
pace               decides whether a submission used up a limit itself or was delayed by other processes
submission         the state of one submission while it is graded
outputs            the outputs of the cells
sandbox/           the sandboxes: bubblewrap, the fork server and their limits
inside/            the code that runs in the sandboxes
  student          student process: runs the cells, and answers the test process between them
  shell            Jupyter's kernel without a connection, which records the outputs
  test_process     test process: runs the checks, from the instructor's source only
  rank_sandbox     third sandbox: runs functions of the notebook on ranks, if a check needs it
  ask_ranks        requests from the test process to that sandbox
  names            names that a cell or a function needs
  remote           proxies of the student's functions and objects
  channel, codec   messages between the processes: plain data as JSON with a length limit, never a pickle

with Engine(student_files.package(), workers=2, limits=Limits(cell=60)) as engine:
    verdict = engine.grade(notebook, files)
"""

from .engine import Engine
from .verdict import Check, Limits, Verdict

__all__ = ["Check", "Engine", "Limits", "Verdict"]
