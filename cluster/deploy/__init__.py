"""Setting up: the environment, and a Slurm on one machine."""
