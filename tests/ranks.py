"""Ranks on this machine, forked from a process that has imported TensorFlow, which saves seconds per rank.

They are for tests of the results that ranks compute. How ranks are started is tested by the contract suite.
"""

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator

SERVER = """
import socket, sys
import horovod.tensorflow, keras, numpy
from cluster.jobs.backends import forked_ranks
from cluster.jobs.rank import main
from cluster.system.processes import die_with_parent
import cluster.training.distributed, cluster.training.models
die_with_parent()
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(sys.argv[1])
listener.listen(8)
print("ready", flush=True)
forked_ranks.serve(listener)
"""


@contextlib.contextmanager
def forked() -> Iterator[str]:
    """Start a server that forks ranks, and yield the value of $CLUSTER_WARM for jobs that use it."""
    with (
        tempfile.TemporaryDirectory(prefix="ranks-") as folder,
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", SERVER, f"{folder}/socket"],
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout.readline() == "ready\n", "the server of ranks did not start"
            yield f"{folder}/socket"
        finally:
            process.kill()
