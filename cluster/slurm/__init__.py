"""What Slurm is asked, and what its words mean: for jobs, and for whoever grades on it."""
