"""Queries of Slurm and the meaning of its answers, for jobs and for grading."""
