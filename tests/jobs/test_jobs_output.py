"""Output is bounded: what prints for ever keeps its beginning and its end, and fills no disk."""

import os
import re
import subprocess
import sys
import time

import programs
import pytest

from cluster.jobs import errors, metrics, output, submit

CUT = re.compile(rb"\n--- (\d+) bytes are cut out here: .* (\d+) bytes at most \(max_output\)\n")


def lines(n):
    """n lines of 10 bytes, each other than the others."""
    return b"".join(b"%09d\n" % i for i in range(n))


def written(path, text, limit, chunk=1000):
    log = output.Log(path, limit)
    for i in range(0, len(text), chunk):
        log.write(text[i : i + chunk])
    return log


@pytest.mark.parametrize("n", [0, 1, 799, 800, 1600])
def test_up_to_the_cap_all_of_it_is_kept(tmp_path, n):
    """16,000 bytes are 1600 lines."""
    written(tmp_path / "out-0.log", lines(n), 16_000).close()
    assert (tmp_path / "out-0.log").read_bytes() == lines(n)
    assert [p.name for p in tmp_path.iterdir()] == ["out-0.log"]


@pytest.mark.parametrize("n", [1700, 2001, 2400, 54_321])
@pytest.mark.parametrize("chunk", [7, 1000, 40_000])
def test_of_more_the_beginning_and_the_end_stay_and_the_rest_is_counted(tmp_path, n, chunk):
    """Half of the cap from the beginning, and between a quarter and a half from the end, in whole lines."""
    text, path = lines(n), tmp_path / "out-0.log"
    log = written(path, text, 16_000, chunk)
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) <= 16_000
    running = output.read(path)
    last = output.end(path)
    assert len(last) >= 4000 and text.endswith(last)
    log.close()
    assert output.end(path) == path.read_bytes()[-output.CHUNK :]
    said = path.read_bytes()
    assert said == running and len(said) < 16_200
    cut = CUT.search(said)
    head, tail = said[: cut.start()], said[cut.end() :]
    assert text.startswith(head) and text.endswith(tail) and len(head) == 8000
    assert 3990 <= len(tail) <= 8000 and re.match(rb"\d{9}\n", tail)
    assert len(head) + int(cut[1]) + len(tail) == len(text)
    assert int(cut[2]) == 16_000 and [p.name for p in tmp_path.iterdir()] == ["out-0.log"]


def test_what_a_killed_rank_left_is_read_whole_and_joined_by_the_next_attempt(tmp_path):
    path = tmp_path / "out-0.log"
    written(path, lines(3000), 16_000)  # and no close()
    assert output.read(path).endswith(b"000002999\n")
    log = output.Log(path, 16_000)
    log.write(b"the next attempt\n")
    log.close()
    assert path.read_bytes().endswith(b"000002999\nthe next attempt\n")
    assert [p.name for p in tmp_path.iterdir()] == ["out-0.log"]


def test_a_full_disk_costs_what_is_printed_and_not_the_rank(tmp_path, monkeypatch):
    """The disk is full for a while; what comes before and after is kept, and the loss is told."""
    path, write = tmp_path / "out-0.log", os.write
    log = written(path, b"before\n", 16_000)
    monkeypatch.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    log.write(b"lost\n")
    monkeypatch.setattr(os, "write", write)
    log.write(b"after\n")
    log.close()
    assert path.read_text() == "before\nafter\n\n--- 5 bytes could not be written: the disk was full\n"


def test_metrics_grow_thinner_and_never_beyond_the_cap(tmp_path, monkeypatch, capsys):
    """Of 20,000 lines the first half of the cap holds each, and the curve goes on nearly to its end."""
    for name, value in [("JOB", str(tmp_path)), ("RANK", "0"), ("MAX_OUTPUT", "64K")]:
        monkeypatch.setenv(f"CLUSTER_{name}", value)
    monkeypatch.setattr(metrics, "_calls", metrics.Counter())
    monkeypatch.setattr(metrics.atexit, "register", lambda tell: told.append(tell))
    told = []
    for step in range(20_000):
        metrics.log(step=step)
    kept = [row["step"] for row in metrics.Tail(tmp_path).read()]
    assert (tmp_path / "metrics-0.jsonl").stat().st_size <= 2**16
    assert kept[:500] == list(range(500)) and kept[-1] > 10_000
    assert capsys.readouterr().err.count("lines are left out") == len(told) == 1
    told[0]()
    assert capsys.readouterr().err == f"Lines of metrics left out: {20_000 - len(kept)} of 20000.\n"


def test_a_long_message_of_an_error_is_clipped():
    text = output.clip("a" * 10**6 + "the end")
    assert len(text) < 2**16 + 100 and text.endswith("the end") and "934471 characters are cut out" in text


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
    """From Python, from C level, from a child process, and by log(): 5 MB, of which 64 KiB stay each."""
    job = submit(programs.prints_much, 5_000_000, max_output="64K")
    with pytest.raises(errors.RankFailed, match="ValueError on rank 0: at the end"):
        job.result()
    said = job.logs(0).encode()
    cut = CUT.search(said)
    assert said.startswith(b"from Python\n") and len(said) < 2**16 + 500
    assert said.count(b"--- ") == 1 and int(cut[1]) > 4_600_000
    assert b"the last words of a child" in said and b"the last words at C level" in said
    assert said.rstrip().endswith(b"ValueError: at the end")
    assert (job.folder / "metrics-0.jsonl").stat().st_size <= 2**16
    assert (job.folder / "job.log").stat().st_size < 4096
    held = sum(p.stat().st_size for p in job.folder.rglob("*") if p.is_file() and p.name != "call.pkl")
    assert held < 200_000 and not list(job.folder.glob("out-0.part*"))
    job.follow()


def test_a_job_that_prints_for_ever_is_bounded_while_it_runs_and_can_be_cancelled(runs):
    job = submit(programs.prints_for_ever, max_output="64K")
    seen = b""
    while not CUT.search(seen):
        seen = output.read(job.folder / "out-0.log")
        assert not job.status.ended and len(seen) < 2**16 + 500
    first = job.logs(0)[-10:]
    while job.logs(0)[-10:] == first:  # it is the end of the output that is shown, and it moves
        time.sleep(0.01)
    job.cancel()
    assert job.status == "cancelled" and sum(p.stat().st_size for p in job.folder.glob("out-*")) < 2**16 + 500


def test_what_a_rank_leaves_behind_does_not_hold_it(runs):
    """A child that goes on holds the rank's output open."""
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
from cluster.jobs import output
pipe, printed = os.pipe()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
child = os.fork()
if child == 0:
    os.dup2(printed, 1)
    os.execvp("sh", ["sh", "-c", "yes | head -c 200000000"])
os.close(printed)
log = output.Log(Path(sys.argv[1]), 2**20)
output.attend(child, pipe, log)
log.close()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_the_memory_is_bounded_too(tmp_path):
    """200 MB go through in less than 8 MiB more than at the beginning."""
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "out-0.log")]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert int(said.stdout) < 8 * 1024 and (tmp_path / "out-0.log").stat().st_size < 2**20 + 500
