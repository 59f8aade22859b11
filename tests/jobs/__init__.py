"""Tests of jobs. Those of show, the doctor and sites are beside them."""

import time


def until(true, seconds=240):
    """Wait until `true()` is true, and return its value."""
    deadline = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)
    return value
