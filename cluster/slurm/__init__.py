"""Queries to Slurm and the meaning of its answers, for jobs and for grading."""
