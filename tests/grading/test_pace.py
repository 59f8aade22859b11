"""A limit that a submission reached because of other processes is not counted against it."""

import contextlib
import subprocess
import sys
import time

import pytest

from cluster.staff.engine import Limits, pace

from .classes import FULL
from .sandboxes import Engine, need, patiently, tiny

BUSY = "def double(x):\n    return 2 * x\nimport time\nwhile time.process_time() < {}: pass"


@contextlib.contextmanager
def neighbours(count):
    """Start this many processes that only compute. Each has its own session and share of the CPU."""
    command = [sys.executable, "-c", "while True: pass"]
    spinning = [subprocess.Popen(command, start_new_session=True) for _ in range(count)]
    try:
        time.sleep(0.3)
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    ("used", "delayed", "waited", "starved"),
    [
        (9.5, 5, 9, False),  # used up its time, whatever else was running
        (4, 6, 9, True),  # waited for a processor, which others used
        (4, 0, 9, True),  # its ranks, which have ended, may have waited
        (0.1, 0.1, 9, False),  # slept, or waited for itself
        (4, 0, 0.5, False),  # no other process used its processor
        (4, 6, None, False),  # the kernel does not report waiting times
    ],
)
def test_limits_are_attributed_to_the_submission_or_the_machine(used, delayed, waited, starved):
    """Is it correctly decided from the kernel's times whether a submission used its 10 s itself or was slowed
    down by others?"""
    assert pace.judged(10, 10, used, delayed, waited) is starved
    assert pace.judged(10, 20, 9.5, 10, 19) is False, "twice as long, and its own"


@pytest.mark.parametrize(
    ("window", "used", "delayed", "starved"),
    [
        (12, 2, 1, True),  # slept for 9 of 12 s, less than the limit
        (14, 2, 1, False),  # slept for 11 s of a limit of 10
        (19, 8.9, 0, False),  # computed as long as allowed, and slept for the rest
        (60, 8, 50, True),  # waited for a processor nearly all the time
        (79, 8, 60, False),  # slept for 11 s in all
    ],
)
def test_a_submission_that_sleeps_exceeds_its_limit(window, used, delayed, starved):
    """Does a limit of 10 s also limit sleeping, however busy the machine is?"""
    assert pace.judged(10, window, used, delayed, window) is starved


def test_what_the_kernel_tells():
    """Does a process's CPU time include its children's? Is an ended process reported as not starved?"""
    code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'while True: pass'], timeout=300)"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        watched = pace.Pace(process.pid)
        since = watched.now()
        until = time.monotonic() + 200
        while pace.computed(pace.family(process.pid)[1:]) < 0.05:
            assert time.monotonic() < until, "the child never computed"
            time.sleep(0.01)
        assert len(pace.family(process.pid)) == 2
        used = watched.used(since)
        assert 0.05 < used < 2 * (time.monotonic() - since.at) + 0.1
        for pid in pace.family(process.pid)[::-1]:
            subprocess.run(["kill", "-9", str(pid)], check=False)
    assert watched.now().used == 0 and not watched.starved(since, 1)


@pytest.mark.skipif(pace.pressure() is None, reason="the kernel does not tell how long tasks wait (PSI)")
def test_neighbours_that_starve_the_processor():
    """If other processes use the CPU, is a submission that needs 0.8 s of a limit of 1 s graded again, rather
    than failed as too slow?"""
    need()
    limits = Limits(cell=1, check=3, total=60, processes=64)
    with Engine(workers=1, limits=limits) as engine:
        engine.grade(tiny("def double(x): return 2 * x"))  # starts the fork server
        with neighbours(40):
            verdict = engine.grade(tiny(BUSY.format(0.8)))
        assert (verdict.outcome, verdict.alone) == ("again", True), verdict.to_json()
        assert "other processes" in verdict.why
        verdict = patiently(engine, tiny(BUSY.format(0.8)))
        assert verdict.outcome == "graded" and verdict.checks["check"].score == 2
        assert "TimeLimit" not in str(verdict.notebook)


def test_starved_submissions_are_regraded_alone(many):
    """Are submissions that reached a limit because the machine was busy graded again one by one, after all
    others have ended?"""
    for number in range(4):
        many.hand_in(f"s{number}", "STARVED" if number < 2 else "x = 1")
    result = many.run()
    assert sorted(result.graded) == ["s0", "s1", "s2", "s3"] and not result.ungraded
    assert many.points()["s0"] == FULL
    assert many.executed() == {"s0": 2, "s1": 2, "s2": 1, "s3": 1}
    times = {path.name: path.stat().st_mtime_ns for path in many.seen.iterdir()}
    last = sorted(times, key=times.get)[-2:]
    assert {name.partition("-")[0] for name in last} == {"s0", "s1"}
