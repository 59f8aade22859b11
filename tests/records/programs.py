"""The programs of the recorded jobs."""

import os
import signal
import sys
import time


def meet():
    """Return the rank and the world size after a sum over all ranks, which requires all of them to take
    part."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    hvd.allreduce(tf.constant(float(hvd.rank())), op=hvd.Sum)
    return {"rank": hvd.rank(), "world size": hvd.size()}


def waits(seconds):
    """Sleep for this many seconds."""
    time.sleep(seconds)
    return {"rank": 0, "world size": 1}


def waits_together(seconds):
    """Do the same as `waits`, on ranks connected by Horovod."""
    found = meet()
    time.sleep(seconds)
    return found


def takes(mib, rank=0):
    """Allocate memory in steps on one rank; return at once on the others."""
    found, taken = {"rank": 0, "world size": 1}, []
    if int(os.environ["CLUSTER_RANK"]) == rank:
        for _ in range(mib // 20):
            taken.append(b"x" * (20 << 20))
            time.sleep(0.02)
    return found | {"blocks": len(taken)}


def takes_together(mib, rank):
    """Do the same as `takes`, on ranks connected by Horovod."""
    found = meet()
    takes(mib, rank)
    return found | meet()


def raises(kind, message, rank):
    """Raise an error on one rank after a while; the others wait for it in a collective."""
    found = meet()
    time.sleep(1)
    if found["rank"] == rank:
        raise {"KeyError": KeyError, "RuntimeError": RuntimeError}[kind](message)
    return meet()


def is_killed(by, rank):
    """Kill one rank with a signal; the others wait for it in a collective."""
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
    """Leave the other ranks and start Horovod again with the variables of a one-rank job, which raises no
    error."""
    import horovod.tensorflow as hvd

    meet()
    hvd.shutdown()
    os.environ.update(HOROVOD_RANK="0", HOROVOD_SIZE="1", HOROVOD_LOCAL_RANK="0", HOROVOD_LOCAL_SIZE="1")
    os.environ.update(HOROVOD_CROSS_RANK="0", HOROVOD_CROSS_SIZE="1")
    for name in ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT"):
        os.environ.pop(name, None)
    hvd.init()
    return {"rank": hvd.rank(), "world size": hvd.size()}
