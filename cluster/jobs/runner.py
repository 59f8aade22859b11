"""The former name of `cluster.jobs.rank.main`, for jobs that wait in a queue with a script that names it."""

import runpy

if __name__ == "__main__":
    runpy.run_module("cluster.jobs.rank.main", run_name="__main__")
