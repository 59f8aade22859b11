"""The configuration of people's Jupyter servers, loaded from their role's folder."""

from __future__ import annotations

import os
import sqlite3
from datetime import datetime
from typing import Any

from jupyter_core.paths import jupyter_data_dir
from jupyter_server._tz import utcnow
from jupyter_server.base.handlers import AuthenticatedFileHandler
from jupyter_server.services.contents.filecheckpoints import AsyncFileCheckpoints
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from nbformat.sign import SQLiteSignatureStore


class Kernels(AsyncMappingKernelManager):
    """Count a running cell as activity even if it prints nothing, so its server is not idle."""

    @property
    def last_kernel_activity(self) -> datetime:
        """The time of the last activity: now, if a kernel is computing."""
        busy = any(getattr(k, "execution_state", "") == "busy" for k in self._kernels.values())
        return utcnow() if busy else self.__dict__.setdefault("seen", utcnow())

    @last_kernel_activity.setter
    def last_kernel_activity(self, when: datetime) -> None:
        self.__dict__["seen"] = when


class Files(AuthenticatedFileHandler):
    """Serve figures of the lectures: ~/course is a link out of the home, which Jupyter would not follow."""

    course = os.path.realpath(os.path.join(os.environ["CLUSTER_HUB"], "course"))

    def validate_absolute_path(self, root: str, absolute_path: str) -> str:
        """Accept files of the course, too."""
        real = os.path.realpath(absolute_path)
        if real.startswith(self.course + os.sep):
            root, absolute_path = self.course, real
        return super().validate_absolute_path(root, absolute_path)


class Checkpoints(AsyncFileCheckpoints):
    """Keep checkpoints of read-only notebooks at home; Jupyter would use one folder in /tmp for all users."""

    def checkpoint_path(self, checkpoint_id: str, path: str) -> str:
        """Return where a checkpoint is kept."""
        folder, _, name = path.strip("/").rpartition("/")
        if os.access(self._get_os_path(folder), os.W_OK):
            return super().checkpoint_path(checkpoint_id, path)
        kept = os.path.expanduser(os.path.join("~/.local/share/jupyter/checkpoints", folder))
        os.makedirs(kept, mode=0o700, exist_ok=True)
        stem, kind = os.path.splitext(name)
        return os.path.join(kept, f"{stem}-{checkpoint_id}{kind}")


class Signatures(SQLiteSignatureStore):
    """Opening a notebook records the time. On a full disk it opens all the same, unsigned."""

    def check_signature(self, digest: str, algorithm: str) -> bool:
        """Return whether a notebook is signed, without recording the time if that fails."""
        try:
            return super().check_signature(digest, algorithm)
        except sqlite3.OperationalError:
            self.db.rollback()
            words = "SELECT 1 FROM nbsignatures WHERE algorithm = ? AND signature = ?"
            return self.db.execute(words, (algorithm, digest)).fetchone() is not None

    def store_signature(self, digest: str, algorithm: str) -> None:
        """Sign a notebook if there is space."""
        try:
            super().store_signature(digest, algorithm)
        except sqlite3.OperationalError:
            self.db.rollback()


def signatures() -> Any:
    """Return the user's signatures."""
    return Signatures(os.path.join(jupyter_data_dir(), "nbsignatures.db"))


c = get_config()  # type: ignore[name-defined]  # noqa: F821
c.ServerApp.kernel_manager_class = Kernels
c.ContentsManager.files_handler_class = Files
c.ContentsManager.checkpoints_class = Checkpoints
c.FileContentsManager.delete_to_trash = False  # it is invisible and counts against the quota
c.NotebookNotary.store_factory = signatures
