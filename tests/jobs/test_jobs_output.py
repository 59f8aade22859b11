"""A job's output is limited: only the beginning and the end of long output are kept, which protects the
disk."""

import os
import re
import subprocess
import sys
import time

import pytest

from cluster.jobs import errors, metrics, submit
from cluster.jobs.run import rank_log

from . import programs

CUT = re.compile(rb"\n--- (\d+) bytes are cut out here: .* (\d+) bytes at most \(max_output\)\n")


def lines(n):
    """Return n lines of 10 bytes, all different."""
    return b"".join(b"%09d\n" % i for i in range(n))


def written(path, text, limit, chunk=1000):
    log = rank_log.Log(path, limit)
    for i in range(0, len(text), chunk):
        log.write(text[i : i + chunk])
    return log


@pytest.mark.parametrize("n", [0, 1, 799, 800, 1600])
def test_up_to_the_cap_all_of_it_is_kept(tmp_path, n):
    """Is output kept completely up to the limit of 16,000 bytes (1600 lines of 10 bytes)?"""
    written(tmp_path / "out-0.log", lines(n), 16_000).close()
    assert (tmp_path / "out-0.log").read_bytes() == lines(n)
    assert [p.name for p in tmp_path.iterdir()] == ["out-0.log"]


@pytest.mark.parametrize("n", [1700, 2001, 2400, 54_321])
@pytest.mark.parametrize("chunk", [7, 1000, 40_000])
def test_of_more_the_beginning_and_the_end_stay_and_the_rest_is_counted(tmp_path, n, chunk):
    """If output exceeds the limit, does the log keep its beginning (half of the limit) and complete lines
    from its end (between a quarter and half of the limit)? Does it count the bytes in between?"""
    text, path = lines(n), tmp_path / "out-0.log"
    log = written(path, text, 16_000, chunk)
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) <= 16_000
    running = rank_log.read_log(path)
    last = rank_log.end(path)
    assert len(last) >= 4000 and text.endswith(last)
    log.close()
    assert rank_log.end(path) == path.read_bytes()[-rank_log.CHUNK :]
    output = path.read_bytes()
    assert output == running and len(output) < 16_200
    cut = CUT.search(output)
    head, tail = output[: cut.start()], output[cut.end() :]
    assert text.startswith(head) and text.endswith(tail) and len(head) == 8000
    assert 3990 <= len(tail) <= 8000 and re.match(rb"\d{9}\n", tail)
    assert len(head) + int(cut[1]) + len(tail) == len(text)
    assert int(cut[2]) == 16_000 and [p.name for p in tmp_path.iterdir()] == ["out-0.log"]


def test_what_a_killed_rank_left_is_read_whole_and_joined_by_the_next_attempt(tmp_path):
    path = tmp_path / "out-0.log"
    written(path, lines(3000), 16_000)  # without close()
    assert rank_log.read_log(path).endswith(b"000002999\n")
    log = rank_log.Log(path, 16_000)
    log.write(b"the next attempt\n")
    log.close()
    assert path.read_bytes().endswith(b"000002999\nthe next attempt\n")
    assert [p.name for p in tmp_path.iterdir()] == ["out-0.log"]


def test_a_full_disk_costs_what_is_printed_and_not_the_rank(tmp_path, monkeypatch):
    """If the disk is full for a while, is only the output of that time lost, and is the loss reported?"""
    path, write = tmp_path / "out-0.log", os.write
    log = written(path, b"before\n", 16_000)
    monkeypatch.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    log.write(b"lost\n")
    monkeypatch.setattr(os, "write", write)
    log.write(b"after\n")
    log.close()
    assert path.read_text() == "before\nafter\n\n--- 5 bytes could not be written: the disk was full\n"


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
    assert capsys.readouterr().err.count("lines are omitted") == len(told) == 1
    told[0]()
    assert capsys.readouterr().err == f"Lines of metrics left out: {20_000 - len(steps)} of 20000.\n"


def test_a_long_message_of_an_error_is_clipped():
    text = rank_log.clip("a" * 10**6 + "the end")
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
    assert held < 200_000 and not list(job.folder.glob("out-0.part*"))
    job.follow()


def test_a_job_that_prints_for_ever_is_bounded_while_it_runs_and_can_be_cancelled(runs):
    job = submit(programs.prints_for_ever, max_output="64K")
    seen = b""
    while not CUT.search(seen):
        seen = rank_log.read_log(job.folder / "out-0.log")
        assert not job.status.ended and len(seen) < 2**16 + 500
    first = job.logs(0)[-10:]
    while job.logs(0)[-10:] == first:  # the end of the output is shown, and changes
        time.sleep(0.01)
    job.cancel()
    # up to 1.5 times the limit if joining the parts was interrupted
    size = sum(p.stat().st_size for p in job.folder.glob("out-*"))
    assert job.status == "cancelled" and size < 1.5 * 2**16 + 500


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
    assert int(output.stdout) < 8 * 1024 and (tmp_path / "out-0.log").stat().st_size < 2**20 + 500


@pytest.mark.parametrize("chunk", [7, 1000, 3999])
@pytest.mark.parametrize("n", [0, 800, 1300, 1700, 2400])
def test_a_follower_sees_all_output(tmp_path, n, chunk):
    """Does a follower that reads after each write see each of up to 24,000 bytes exactly once, although the
    log keeps only 16,000 bytes?"""
    text, path = lines(n), tmp_path / "out-0.log"
    log, follower, seen = rank_log.Log(path, 16_000), rank_log.Follower(path), b""
    for i in range(0, len(text), chunk):
        log.write(text[i : i + chunk])
        seen += follower.new_bytes()
        assert seen == text[: i + chunk], "what was printed is not shown until the rank ends"
    log.close()
    assert seen + follower.new_bytes() == text and follower.new_bytes() == b""


def accounts(seen, text):
    """Return whether each byte of the text was either seen at its position or counted as missing."""
    at = 0
    for piece, missing in zip(CUT.split(seen)[::3], [*CUT.split(seen)[1::3], b"0"], strict=True):
        assert text[at : at + len(piece)] == piece
        at += len(piece) + int(missing)
    return at == len(text)


@pytest.mark.parametrize("looks", [1, 2, 3, 5])
def test_a_slow_follower_sees_how_much_is_missing(tmp_path, looks):
    """If a follower reads rarely, is each byte either seen or counted as missing? Are the beginning and the
    end seen?"""
    text, path = lines(54_321), tmp_path / "out-0.log"
    log, follower, seen = rank_log.Log(path, 16_000), rank_log.Follower(path), b""
    for i in range(looks):
        log.write(text[len(text) * i // looks : len(text) * (i + 1) // looks])
        seen += follower.new_bytes()
    log.close()
    seen += follower.new_bytes()
    assert seen.startswith(text[:8000]) and seen.endswith(text[-3990:]) and accounts(seen, text)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("first", [900, 1500, 3000])
def test_a_follower_sees_both_attempts_of_a_resumed_run(tmp_path, first, when):
    """If the first attempt of a rank is killed, does a follower see the output of both attempts exactly
    once?"""
    path = tmp_path / "out-0.log"
    follower, seen = rank_log.Follower(path), b""
    log = rank_log.Log(path, 16_000)
    for line in lines(first).splitlines(keepends=True):
        log.write(line)
        seen += follower.new_bytes()
    if when == "before":
        assert seen == lines(first)
    log = rank_log.Log(path, 16_000)
    if when == "after":
        seen += follower.new_bytes()
    for _ in range(1500):
        log.write(b"attempt 2\n")
        seen += follower.new_bytes()
    log.close()
    assert seen + follower.new_bytes() == lines(first) + b"attempt 2\n" * 1500


def test_following_reads_right_while_the_parts_are_joined(tmp_path, monkeypatch):
    """If a follower reads while the log's parts are joined, is each byte either seen once or counted as
    missing? Is the end seen?"""
    text, path = lines(2400), tmp_path / "out-0.log"
    looked = []

    def look(*_):
        for follower, seen in looked:
            seen.append(follower.new_bytes())

    for name in ("rename", "unlink"):
        change = getattr(rank_log.Path, name)
        monkeypatch.setattr(rank_log.Path, name, lambda *a, do=change, **k: (look(), do(*a, **k), look())[1])
    rest = rank_log._rest
    monkeypatch.setattr(rank_log, "_rest", lambda p: (look() or piece for piece in rest(p)))
    for known in range(0, len(text), 1000):  # the number of bytes that the follower has already seen
        looked.clear()
        log = rank_log.Log(path, 16_000)
        log.write(text[:known])
        follower = rank_log.Follower(path)
        seen = [follower.new_bytes()]
        log.write(text[known:])
        looked.append((follower, seen))
        log.close()
        look()
        result = b"".join(seen)
        assert result.endswith(text[-3990:]) and accounts(result, text), known
        path.unlink()


def test_a_job_that_prints_much_is_followed_while_it_runs(runs, tmp_path, capsys, monkeypatch):
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
