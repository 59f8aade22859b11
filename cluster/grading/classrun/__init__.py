"""Grading a class: `python -m cluster grade --help`.

head       reads what was handed in, sends out what has to be executed, writes the gradebook: it alone does
local, array   where the workers run: processes of this machine, or one Slurm array
gradebook  a student's marks in nbgrader's database, and the notebook that Formgrader shows
plugin     the same for nbgrader's own command and Formgrader's button
collect, late, export, report, regrade   what else an instructor does with a class

Between head and workers lie files only (cluster/grading/store.py), so each side can be killed at any moment.
"""
