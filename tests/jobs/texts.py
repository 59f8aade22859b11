"""Records of runs for generating batch scripts, and the folder of golden scripts."""

from pathlib import Path

from cluster.jobs.options import Options

GOLDEN = Path(__file__).parent / "golden"


def run(ranks=2, name="train", controller="gloo", env=(), **options):
    """Return the record of a run with these options, as in its run.json."""
    asked = vars(Options(memory=2048, time=600)) | options
    return {"name": name, "ranks": ranks, "controller": controller, "env": list(env), "options": asked}
