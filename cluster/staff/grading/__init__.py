"""Grades a class, here or on Slurm, and keeps its grades."""
