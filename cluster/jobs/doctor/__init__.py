"""Report what is available to run jobs, and what is missing.

`cluster.jobs.doctor` is the function, because that package imports this one before defining it.
"""
