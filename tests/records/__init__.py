"""The records of jobs that assignment 05 asks about, made on a real Slurm: `python -m tests.records`."""
