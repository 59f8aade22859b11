"""`start_slurm` under the name imported by the scripts of recorded runs, whose hash a record contains."""

from .operate import start_slurm as start_slurm
