"""Functions that the tests of sweeps run for each item."""

import time
from pathlib import Path

from cluster.jobs import log, run_folder
from cluster.jobs.run import attempts


def inverse(x, wrong=None, seconds=0.3):
    """Return and log 1 / x; fail if x is `wrong`."""
    log(step=1, steps=2, loss=2.0 / x)
    time.sleep(seconds)
    print("item", x)
    if x == wrong:
        raise ValueError(f"{x} is the wrong one")
    log(step=2, steps=2, loss=1.0 / x)
    return {"inverse": 1 / x, "doubled": [x, x]}


def counted(word, place):
    """Add the word to the file `calls`. A word that starts with "fails" fails until the file
    `<place>.mended` exists."""
    with open(Path(place) / "calls", "a") as f:
        f.write(f"{word}\n")
    if word.startswith("fails") and not Path(f"{place}.mended").exists():
        raise RuntimeError("not mended yet")
    return word.upper()


def noted(word, notes):
    """Append the word to the file `notes`."""
    with open(notes, "a") as f:
        f.write(f"{word}\n")
    return word.upper()


def ranks(item):
    """Return the sum of rank + 1 over the item's ranks, times the item."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    return item * float(hvd.allreduce(tf.constant(hvd.rank() + 1.0), op=hvd.Sum))


def waits(item, place):
    """Create the file `began-<item>`, and wait until the file `go` exists."""
    (Path(place) / f"began-{item}").touch()
    while not (Path(place) / "go").exists():
        time.sleep(0.05)
    return item


def goes_on(item, steps=3):
    """Count steps in a file. In the first attempt, the item "stops" waits after one step, to be
    interrupted."""
    done = run_folder() / "done"
    for step in range(int(done.read_text()) if done.exists() else 0, steps):
        done.write_text(str(step + 1))
        log(step=step + 1, steps=steps, attempt_number=attempts.current())
        if attempts.current() == 1 and item == "stops":
            time.sleep(300)
    return [item, attempts.current()]
