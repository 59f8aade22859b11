"""`stop_slurm` under the name imported by the scripts of recorded runs, whose hash a record contains."""

from .operate import stop_slurm as stop_slurm
