"""Grading a class: `python -m cluster grade --help`.

grade          the coordinator: reads submissions, dispatches what must be executed, writes the gradebook
on_this_machine, on_slurm   where the workers run: processes of this machine, or one Slurm array
gradebook      a student's scores in nbgrader's database, and the notebook that Formgrader shows
nbgrader_steps, nbgrader_exchange   the same for nbgrader's own commands and Formgrader's buttons
due_dates      due dates, extensions, and late penalties
class_report   a class's results in an assignment; report_page draws it
collect, give, regrade, prove_checks   an instructor's other commands

Coordinator and workers communicate only through files (grading_folder), so each can be killed at any moment.
"""
