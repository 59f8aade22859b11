"""Functions that the tests of sweeps run for each item."""

import time
from pathlib import Path

from cluster.jobs import log, run_folder
from cluster.jobs.state import attempts


def inverse(x, wrong=None, seconds=0.3):
    """1 / x, logged on the way; fails for one item."""
    log(step=1, steps=2, loss=2.0 / x)
    time.sleep(seconds)
    print("item", x)
    if x == wrong:
        raise ValueError(f"{x} is the wrong one")
    log(step=2, steps=2, loss=1.0 / x)
    return {"inverse": 1 / x, "doubled": [x, x]}


def counted(word, place):
    """Leaves a line for each call; fails until the file `mended` is there, if the word says so."""
    with open(Path(place) / "calls", "a") as f:
        f.write(f"{word}\n")
    if word.startswith("fails") and not (Path(place) / "mended").exists():
        raise RuntimeError("not mended yet")
    return word.upper()


def ranks(item):
    """With whom an item works."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    return item * float(hvd.allreduce(tf.constant(hvd.rank() + 1.0), op=hvd.Sum))


def waits(item, place):
    """Until there is a file `go`; says that it has begun."""
    (Path(place) / f"began-{item}").touch()
    while not (Path(place) / "go").exists():
        time.sleep(0.05)
    return item


def goes_on(item, steps=3):
    """Counts its steps in a file; in the first attempt it stops after one and waits to be ended."""
    done = run_folder() / "done"
    for step in range(int(done.read_text()) if done.exists() else 0, steps):
        done.write_text(str(step + 1))
        log(step=step + 1, steps=steps, attempt_number=attempts.current())
        if attempts.current() == 1 and item == "stops":
            time.sleep(300)
    return [item, attempts.current()]
