"""Functions that the tests of jobs run on ranks."""

import argparse
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np

from cluster.jobs import log, run_folder

SCALE = 10.0


def scaled(x):
    return SCALE * x


def everything(steps):
    """Use everything in one job: collectives, logs, metrics, files, and plain data of every kind."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    for step in range(1, steps + 1):
        log(step=step, steps=steps, loss=tf.constant(1.0 / step), seen=np.int64(step))
    print(f"rank {hvd.rank()} of {hvd.size()}")
    os.write(2, b"from a library\n")
    if hvd.rank() == 0:
        (run_folder() / "checkpoint.txt").write_text("weights")
    return {
        "rank": hvd.rank(),
        "size": hvd.size(),
        "local_size": hvd.local_size(),
        "sum": hvd.allreduce(tf.constant([scaled(hvd.rank() + 1.0)]), op=hvd.Sum),
        "array": np.full((2, 3), hvd.rank(), np.float32),
        "nested": [(1, "two", None), {3: np.float64(0.5)}],
        "threads": [os.environ["OMP_NUM_THREADS"], os.environ["TF_NUM_INTRAOP_THREADS"]],
        "built": [hvd.gloo_enabled(), hvd.mpi_enabled()],
        "extra": os.environ["EXTRA"],
    }


def world_size():
    import horovod.tensorflow as hvd

    hvd.init()
    return hvd.size()


def fails_on_rank_1():
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    if hvd.rank() == 1:
        layers = {"conv1": (3, 3)}
        return layers["conv2"]
    hvd.allreduce(tf.constant(1.0))
    time.sleep(300)


def killed_on_rank_1():
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    if hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    hvd.allreduce(tf.constant(1.0))
    time.sleep(300)


def touches(path):
    """Create a file, which tests use to detect whether the function was called."""
    with open(path, "a") as f:
        f.write("called\n")


def sleeps(seconds):
    print("asleep", flush=True)
    time.sleep(seconds)


def counts_calls(path):
    with open(path, "a") as f:
        f.write("x")
    return os.path.getsize(path)


def returns_object():
    return {"history": [1, {"model": object()}]}


def returns_too_much():
    return np.zeros(300_000)


def exits():
    sys.exit(7)


def takes(mib):
    """Allocate `mib` MiB in steps of 10 MiB, unless a memory limit ends the process."""
    taken = []
    for _ in range(mib // 10):
        taken.append(b"x" * (10 << 20))
        time.sleep(0.02)
    return len(taken)


def logs_and_fails(steps):
    for step in range(1, steps + 1):
        log(step=step, steps=steps, loss=1.0 / step)
        time.sleep(0.2)
    raise ValueError("no more")


def prints_much(n):
    """Print about n bytes in total from Python, from a child process and at C level, and log a metrics line
    for each printed line."""
    print("from Python")
    for i in range(n // 500):
        print(f"{i:09d}" * 10 + "from Python")
        log(step=i, text="x" * 100)
    subprocess.run(["sh", "-c", f"yes child | head -c {n // 2}; echo the last words of a child"], check=True)
    for _ in range(n // 4 // 1000):
        os.write(1, b"C" * 999 + b"\n")
    subprocess.run(["sh", "-c", "echo the last words of a child"], check=True)
    os.write(1, b"the last words at C level\n")
    raise ValueError("at the end")


def prints_for_ever():
    i = 0
    while True:
        i += 1
        print(f"line {i:09d}")


def leaves_a_child():
    print("ended", flush=True)
    return subprocess.Popen(["sleep", "600"]).pid


def closes_its_output():
    os.close(1)
    os.close(2)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    time.sleep(0.2)
    return "went on"


def prints_and_waits(n, path):
    """Print n bytes and a line; then wait for a file, for at most a minute."""
    for i in range(n // 100):
        print(f"{i:099d}")
    print("the last line", flush=True)
    deadline = time.monotonic() + 60
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            raise TimeoutError("what was printed was not seen")
        time.sleep(0.05)


class Unspeakable(ValueError):
    """An exception whose text cannot be read, and which cannot be pickled or copied."""

    def __init__(self, a, b):
        self.a, self.b = a, lambda: b

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


def ends_oddly(how):
    """End in one of the ways in which a student's program may end."""
    if how == "unspeakable":
        raise Unspeakable(1, 2)
    if how == "huge":
        raise ValueError("x" * 10_000_000)
    if how == "surrogates":
        raise ValueError("a\ud800b\0c")
    if how == "group":
        raise ExceptionGroup("several", [ValueError("first"), Unspeakable(1, 2)])
    if how == "chained":
        try:
            {}["a"]
        except KeyError as e:
            raise RuntimeError("after a KeyError") from e
    if how == "interrupted":
        raise KeyboardInterrupt
    if how == "exit text":
        sys.exit("no data")
    if how == "exit array":
        sys.exit(np.zeros(3))
    if how == "closed":
        sys.stderr.close()
        sys.stdout = None
        raise ValueError("without streams")
    if how == "input":
        return input()
    if how == "parsed":
        argparse.ArgumentParser().parse_args(["--unknown"])
    if how == "_exit":
        os._exit(0)
    if how == "thread":
        threading.Thread(target=lambda: os._exit(0)).start()
        time.sleep(60)
    if how == "replaced":
        os.execv("/bin/true", ["true"])
    return None


def reads_its_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    return [sys.argv, parser.parse_args().folder, sys.stdin.read()]


def exits_well(code):
    sys.exit(code)
