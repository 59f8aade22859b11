"""Grading a class: `python -m cluster grade --help`.

grade          the head: reads what was handed in, sends out what has to be executed, writes the gradebook
on_this_machine, on_slurm   where the workers run: processes of this machine, or one Slurm array
gradebook      a student's marks in nbgrader's database, and the notebook that Formgrader shows
nbgrader_steps, nbgrader_exchange   the same for nbgrader's own commands and Formgrader's buttons
due_dates      due dates, extensions, and what lateness costs
class_report   what a class has shown in an assignment; report_page draws it
collect, give, regrade, prove_checks   what else an instructor does with a class

Between head and workers lie files only (grading_folder), so each side can be killed at any moment.
"""
