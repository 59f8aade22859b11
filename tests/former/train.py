"""A job as a student would submit it; `runs` holds what an earlier version of the package recorded of it.

python train.py FOLDER      submit with folder=FOLDER; prints what came of it as JSON
"""

import json
import sys

from cluster import jobs
from cluster.jobs import log, submit

RATE = 0.5


def train(steps):
    loss = 8.0
    for step in range(1, steps + 1):
        loss *= RATE
        log(step=step, steps=steps, loss=loss)
    print("trained", steps, "steps")
    return {"steps": steps, "loss": loss}


if __name__ == "__main__":
    job = submit(train, 3, folder=sys.argv[1], backend="local", name="former")
    found = {
        "result": job.result(),
        "loss": job.metrics()["loss"].tolist(),
        "logs": job.logs(),
        "folder": job.folder.name,
        "jobs": [(listed.id, str(listed.status)) for listed in jobs(folder=sys.argv[1])],
    }
    print("FOUND", json.dumps(found))
