"""A real Slurm on one machine, generated from one description of a cluster.

`python -m cluster.staff.one_machine_slurm --help` lists the commands; README.md is for the administrator.
"""
