"""A job's output is limited: only the beginning and the end of long output are kept, which protects the
disk."""

import os
import re
import resource
import subprocess
import sys
import time

import pytest

from cluster.jobs import errors, metrics, submit
from cluster.jobs.run import rank_log

from . import programs

CUT = re.compile(rb"\n--- (\d+) .*\n")
LIMIT = 16_000


def lines(n):
    """Return n lines of 10 bytes, all different."""
    return b"".join(b"%09d\n" % i for i in range(n))


def disk(path):
    return sum(p.stat().st_size for p in path.parent.iterdir())


@pytest.mark.parametrize("chunk", [7, 1000, 40_000])
@pytest.mark.parametrize("n", [0, 1, 799, 800, 1600, 1700, 2001, 54_321])
def test_the_beginning_and_the_end_stay_and_the_rest_is_counted(tmp_path, n, chunk):
    """Is output kept completely up to the limit (1600 lines), and beyond it its first half and at
    least the last quarter, with the number of the bytes in between? Is it the same while the rank runs?"""
    text, path = lines(n), tmp_path / "out-0.log"
    log = rank_log.Log(path, LIMIT)
    for i in range(0, len(text), chunk):
        log.write(text[i : i + chunk])
        assert disk(path) <= LIMIT
    output, printed = rank_log.read_log(path)
    assert printed == log.printed() == len(text)
    log.close()
    assert (output, printed) == rank_log.read_log(path)
    head, *cut = CUT.split(output)
    if n <= 1600:
        assert output == text
    else:
        assert (len(head), len(cut)) == (LIMIT // 2, 2) and LIMIT // 4 <= len(cut[1]) <= LIMIT // 2
        assert text.startswith(head) and text.endswith(cut[1])
        assert len(head) + int(cut[0]) + len(cut[1]) == len(text)
    assert text.endswith(rank_log.end(path)) and len(rank_log.end(path)) >= min(len(text), LIMIT // 4)


@pytest.mark.parametrize("looks", [1, 2, 5, 100])
def test_a_follower_sees_each_byte_once_or_how_many_are_missing(tmp_path, looks):
    """Does a follower see each byte of two attempts exactly once or counted as
    missing, however rarely it reads? Is nothing missing if it reads often?"""
    text, path = lines(5000), tmp_path / "out-0.log"
    log, seen, at = rank_log.Log(path, LIMIT), b"", 0
    for i in range(looks):
        if i == looks // 2:
            log.close()
            log = rank_log.Log(path, LIMIT)  # the next attempt
        log.write(text[len(text) * i // looks : len(text) * (i + 1) // looks])
        new, at = rank_log.read_log(path, at)
        seen += new
    log.close()
    assert rank_log.read_log(path, at) == (b"", len(text))
    position = 0
    for piece, missing in zip(CUT.split(seen)[::2], [*CUT.split(seen)[1::2], b"0"], strict=True):
        assert text[position : position + len(piece)] == piece
        position += len(piece) + int(missing)
    assert position == len(text) and (looks < 100 or seen == text)


def test_a_full_disk_costs_what_is_printed_and_not_the_rank(tmp_path):
    """If the disk is full for a while, is only the output of that time lost, and is the loss reported?"""
    path = tmp_path / "out-0.log"
    log = rank_log.Log(path, LIMIT)
    log.write(b"before\n")
    most, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (7, hard))
    log.write(b"lost\n")
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    log.write(b"after\n")
    log.close()
    assert path.read_text().startswith("before\nafter\n\n--- 5 ")


def test_metrics_grow_thinner_and_never_beyond_the_cap(tmp_path, monkeypatch, capsys):
    """If 20,000 lines of metrics exceed the limit, are the first 500 steps kept without gaps, and are later
    steps kept less densely? Is the number of omitted lines reported?"""
    for name, value in [("JOB", str(tmp_path)), ("RANK", "0"), ("MAX_OUTPUT", "64K")]:
        monkeypatch.setenv(f"CLUSTER_{name}", value)
    monkeypatch.setattr(metrics, "_calls", metrics.Counter())
    monkeypatch.setattr(metrics.atexit, "register", lambda tell: told.append(tell))
    told = []
    for step in range(20_000):
        metrics.log(step=step)
    steps = [row["step"] for row in metrics.Tail(tmp_path).new_rows()]
    assert (tmp_path / "metrics-0.jsonl").stat().st_size <= 2**16
    assert steps[:500] == list(range(500)) and steps[-1] > 10_000
    assert capsys.readouterr().err.count("max_output") == len(told) == 1
    told[0]()
    assert {str(20_000 - len(steps)), "20000."} <= set(capsys.readouterr().err.split())


def test_a_long_message_of_an_error_is_clipped():
    text = rank_log.clip("a" * 10**6 + "the end")
    assert len(text) < 2**16 + 100 and text.endswith("the end") and " 934471 " in text


@pytest.mark.parametrize("value", ["50", "1K", 50_000, "0M", ""])
def test_a_cap_that_is_none_is_refused(runs, monkeypatch, value):
    with pytest.raises(errors.OptionValueError, match=f"max_output={value!r}"):
        submit(programs.sleeps, 1, max_output=value)
    if value == "1K":
        monkeypatch.setenv("CLUSTER_MAX_OUTPUT", value)
        with pytest.raises(errors.OptionValueError, match="CLUSTER_MAX_OUTPUT='1K'"):
            submit(programs.sleeps, 1)


@pytest.mark.ranks
def test_a_job_that_prints_much_ends_as_always_and_shows_its_traceback(backend):
    """Are 5 MB of output from Python, C code and a child process reduced to 64 KiB, with the traceback kept?
    Are the metrics reduced as well?"""
    job = submit(programs.prints_much, 5_000_000, max_output="64K")
    with pytest.raises(errors.RankFailed, match="ValueError on rank 0: at the end"):
        job.result()
    output = job.logs(0).encode()
    cut = CUT.search(output)
    assert output.startswith(b"from Python\n") and len(output) < 2**16 + 500
    assert output.count(b"--- ") == 1 and int(cut[1]) > 4_600_000
    assert b"the last words of a child" in output and b"the last words at C level" in output
    assert output.rstrip().endswith(b"ValueError: at the end")
    assert (job.folder / "metrics-0.jsonl").stat().st_size <= 2**16
    assert (job.folder / "job.log").stat().st_size < 4096
    held = sum(p.stat().st_size for p in job.folder.rglob("*") if p.is_file() and p.name != "call.pkl")
    assert held < 200_000


def test_a_job_that_prints_for_ever_is_bounded_while_it_runs_and_can_be_cancelled(runs):
    job = submit(programs.prints_for_ever, max_output="64K")
    while not CUT.search(job.logs(0).encode()):
        assert not job.status.ended
    first = job.logs(0)[-10:]
    while job.logs(0)[-10:] == first:  # the end of the output is shown, and changes
        time.sleep(0.01)
    job.cancel()
    size = sum(p.stat().st_size for p in job.folder.glob("out-*"))
    assert job.status == "cancelled" and size <= 2**16


def test_what_a_rank_leaves_behind_does_not_hold_it(runs):
    """Does a rank end although a child process that it leaves behind keeps the rank's output open?"""
    job = submit(programs.leaves_a_child)
    pid = job.wait(60).result()
    assert job.logs(0) == "ended\n"
    while os.path.exists(f"/proc/{pid}"):
        time.sleep(0.05)


def test_a_rank_may_close_its_output(runs):
    assert submit(programs.closes_its_output).result() == "went on"


MEMORY = """
import os, resource, sys
from pathlib import Path
from cluster.jobs.run import rank_log
pipe, printed = os.pipe()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
child = os.fork()
if child == 0:
    os.dup2(printed, 1)
    os.execvp("sh", ["sh", "-c", "yes | head -c 200000000"])
os.close(printed)
log = rank_log.Log(Path(sys.argv[1]), 2**20)
rank_log.attend(child, pipe, log)
log.close()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_the_memory_is_bounded_too(tmp_path):
    """Can 200 MB of output be logged with less than 8 MiB of additional memory?"""
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "out-0.log")]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert int(output.stdout) < 8 * 1024 and disk(tmp_path / "out-0.log") <= 2**20


def test_a_job_that_prints_much_is_followed_while_it_runs(runs, tmp_path, monkeypatch):
    """Is output beyond the first half of `max_output` shown while the job still runs?

    The last line follows 60,000 bytes, and the job ends only after this line has been shown.
    """
    printed = []
    monkeypatch.setattr("builtins.print", lambda *words, **_: printed.extend(words) or shown())

    def shown():
        if printed[-1] == "the last line":
            (tmp_path / "go").touch()

    job = submit(programs.prints_and_waits, 60_000, str(tmp_path / "go"), max_output="64K")
    job.follow()
    assert job.status == "done" and printed[-1] == "the last line"
