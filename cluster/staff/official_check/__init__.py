"""The official check: the current score of a student's folder from the full autograder, a few times per hour.

attempt_limits  the number of checks allowed, and the record of past ones, in .grading/checks/
answers         converts a verdict to the student's view, which does not depend on hidden values
fixed_time      an autograder whose hidden tests take a time that does not depend on what happens in them
checker         grades one folder that a student's server has sent, in the sandboxes used for grading
service         the hub's service `check`: identifies the user, and grades one folder per core at a time
"""
