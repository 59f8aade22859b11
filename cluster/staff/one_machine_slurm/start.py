"""`start_slurm` under the name by which the scripts of recorded runs import it: a record keeps their hash."""

from .operate import start_slurm as start_slurm
