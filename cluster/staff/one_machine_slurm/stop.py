"""`stop_slurm` under the name by which the scripts of recorded runs import it: a record keeps their hash."""

from .operate import stop_slurm as stop_slurm
