"""What is there to run jobs with, and what is missing.

`cluster.jobs.doctor` is the function; that package imports this one before it defines it.
"""
