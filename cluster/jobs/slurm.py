"""The Slurm backend."""
