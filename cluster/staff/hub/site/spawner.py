"""The hub's spawner of local servers: forked from `prefork` or, if that does not answer, started directly.

The hub loads it as a separate file in the state folder, without importing this package.
"""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import Callable
from typing import Any

from jupyterhub.spawner import LocalProcessSpawner
from jupyterhub.utils import random_port
from traitlets import Float, Unicode

PATIENCE = 10.0  # maximum seconds to wait for a fork


def configure(c: Any, settings: dict[str, Any]) -> None:
    """Let the hub start servers on this machine."""
    c.JupyterHub.spawner_class = ForkedSpawner
    c.ForkedSpawner.door = f"{settings['state']}/hub/servers.socket"
    c.ForkedSpawner.program = settings["program"]
    c.ForkedSpawner.memory_gib = settings["memory_gib"]
    c.Spawner.poll_interval = 5  # seconds until the hub knows of a server that was killed


class ForkedSpawner(LocalProcessSpawner):
    """A LocalProcessSpawner whose servers share the memory of what they import."""

    door = Unicode(help="socket of prefork.py").tag(config=True)
    program = Unicode(help="command replaced by a fork; any other `cmd` is executed unchanged").tag(
        config=True
    )
    memory_gib = Float(0, help="limit on each process's data in GiB; 0 for no limit").tag(config=True)

    async def start(self) -> tuple[str, int]:
        """Start the server and return its address and port."""
        self.port: int = self.port or random_port()
        if self.door and self.cmd == [self.program] and not (self.shell_cmd or self.popen_kwargs):
            try:
                self.proc, self.pid = None, await asyncio.wait_for(self._fork(), PATIENCE)
                return self.ip or "127.0.0.1", self.port
            except (OSError, ValueError) as e:
                self.log.warning("No fork for %s (%s); starting from scratch", self.user.name, e or "late")
        return await super().start()

    async def _fork(self) -> int:
        """Return the ID of the process that becomes the server."""
        reading, writing = await asyncio.open_unix_connection(self.door)
        try:
            pid = int(await reading.readline())
            wanted = {"user": self.user.name, "argv": [*self.cmd, *self.get_args()], "env": self.get_env()}
            writing.write(json.dumps(wanted | {"memory": self._bytes()}).encode())
            writing.write_eof()
            await writing.drain()
            return pid
        finally:
            writing.close()

    def make_preexec_fn(self, name: str) -> Callable[[], None]:
        """Return the function that makes the child run as the user, within the memory limit."""
        become, limit = super().make_preexec_fn(name), self._bytes()

        def preexec() -> None:
            if limit:
                resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
            become()

        return preexec

    def _bytes(self) -> int:
        return int(self.memory_gib * 2**30)
