"""The official check: the current score of a student's folder from the full autograder, a few times per hour.

limits    how often, and the record of who has checked what: files in .grading/checks/
answers   from a verdict to what a student may read of it: nothing that depends on what is hidden
uploads   the folder that a student's server sends, packed and taken apart within bounds
checker   grades one folder, in the sandboxes of grading
service   the hub's service `check`, which asks the hub who asks, and lets as many grade as there are cores
"""
