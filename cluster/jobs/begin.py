"""The former name of `cluster.jobs.rank.on_restart`, for jobs that wait with a script that names it."""

import runpy

if __name__ == "__main__":
    runpy.run_module("cluster.jobs.rank.on_restart", run_name="__main__")
