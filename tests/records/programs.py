"""The programs of the recorded jobs."""

import os
import signal
import sys
import time


def meet():
    """Return (rank, world size) and the sum of the ranks, which requires all to take part."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    hvd.allreduce(tf.constant(float(hvd.rank())), op=hvd.Sum)
    return {"rank": hvd.rank(), "world size": hvd.size()}


def waits(seconds):
    """Does nothing for so long."""
    time.sleep(seconds)
    return {"rank": 0, "world size": 1}


def waits_together(seconds):
    """As `waits`, on ranks that know each other."""
    found = meet()
    time.sleep(seconds)
    return found


def takes(mib, rank=0):
    """One rank takes memory in steps, the others wait for it in a collective."""
    found, taken = {"rank": 0, "world size": 1}, []
    if int(os.environ["CLUSTER_RANK"]) == rank:
        for _ in range(mib // 20):
            taken.append(b"x" * (20 << 20))
            time.sleep(0.02)
    return found | {"blocks": len(taken)}


def takes_together(mib, rank):
    """As `takes`, on ranks that know each other."""
    found = meet()
    takes(mib, rank)
    return found | meet()


def raises(kind, message, rank):
    """One rank raises an error after a while, the others wait for it in a collective."""
    found = meet()
    time.sleep(1)
    if found["rank"] == rank:
        raise {"KeyError": KeyError, "RuntimeError": RuntimeError}[kind](message)
    return meet()


def is_killed(by, rank):
    """One rank is ended by a signal, the others wait for it in a collective."""
    found = meet()
    time.sleep(1)
    if found["rank"] == rank:
        os.kill(os.getpid(), getattr(signal, by))
    return meet()


def leaves(code, rank):
    """End one rank with a specific exit code."""
    found = meet()
    time.sleep(1)
    if found["rank"] == rank:
        sys.exit(code)
    return meet()


def starts_anew():
    """Leaves the others, and starts Horovod again with variables of a job of one rank: no error is raised."""
    import horovod.tensorflow as hvd

    meet()
    hvd.shutdown()
    os.environ.update(HOROVOD_RANK="0", HOROVOD_SIZE="1", HOROVOD_LOCAL_RANK="0", HOROVOD_LOCAL_SIZE="1")
    os.environ.update(HOROVOD_CROSS_RANK="0", HOROVOD_CROSS_SIZE="1")
    for name in ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT"):
        os.environ.pop(name, None)
    hvd.init()
    return {"rank": hvd.rank(), "world size": hvd.size()}
