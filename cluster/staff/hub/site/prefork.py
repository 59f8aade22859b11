"""Servers by fork: what a server of JupyterLab imports is loaded once, here, and shared by all of them.

    python prefork.py SOCKET [MODULE ...]

It is run by root next to the hub, whose spawner (`spawner`) sends it requests. It forks before it reads a
request. A user's request, which contains a token, therefore never enters the memory from which another user's
server is forked. It does not import this package, because it runs as a separate file in the state folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import pwd
import resource
import signal
import site
import socket
import struct
import sys
import threading
import time
import traceback

# A server's imports, except `jupyterhub` and `jupyterlab.labapp`: these read environment and home when
# imported, so each server imports them itself, and quickly, since their dependencies are here.
MODULES = (
    "jupyter_server.serverapp",
    "jupyterlab_server",
    "jupyterlab.commands",
    "jupyter_lsp",
    "notebook_shim.shim",
    "terminado",
    "ipykernel.kernelspec",
    "nbconvert.exporters",
    "nbgrader.apps",
    "jupytext",
    "sqlalchemy.orm",
    "alembic.command",
    "aiohttp",
    "oauthlib.oauth2",
    "certipy",
    "pamela",
    "cryptography.fernet",
    "httpx",
    "IPython.display",
    "jinja2.ext",
    "jupyter_server.services.contents.handlers",
    "jupyter_server.services.kernels.handlers",
    "jupyter_server.services.sessions.handlers",
    "jupyter_server_terminals.app",
    "packaging.specifiers",
    "rich.console",
    "unittest.mock",
    "xmlrpc.client",
)
DUMPABLE, NAME = 4, 15  # prctl's PR_SET_DUMPABLE and PR_SET_NAME


def main(path: str, modules: tuple[str, ...] = MODULES) -> None:
    """Load the modules, listen at `path`, and fork for each connection. Does not return."""
    load(modules)
    door = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    old = os.umask(0o077)
    door.bind(path)
    os.umask(old)
    door.listen(256)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # exited children do not become zombies
    while True:
        knock, _ = door.accept()
        if os.fork() == 0:
            door.close()
            _child(knock)
        knock.close()


def load(modules: tuple[str, ...]) -> None:
    """Import modules, ignoring missing ones. Raises RuntimeError if an import starts a thread."""
    for name in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if nbformat := sys.modules.get("nbformat"):
        nbformat.validate(nbformat.v4.new_notebook())  # compiles the notebook schema
    if threading.active_count() > 1:
        raise RuntimeError(f"Imports started threads, which a fork does not copy: {threading.enumerate()}")
    gc.collect()
    gc.freeze()  # otherwise the garbage collector's flags would copy every page


def settle() -> None:
    """Recompute the values that modules derived from home and user at import."""
    site.USER_BASE = site.USER_SITE = None
    if trash := sys.modules.get("send2trash.plat_other"):
        importlib.reload(trash)
    if exporter := sys.modules.get("nbconvert.exporters.templateexporter"):
        from jupyter_core.paths import jupyter_path

        exporter.TemplateExporter.template_data_paths.default_args = (jupyter_path("nbconvert", "templates"),)


def _child(knock: socket.socket) -> None:
    """Send back this process's ID and become the requested process; never return into the loop."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        knock.sendall(b"%d\n" % os.getpid())
        request = b"".join(iter(lambda: knock.recv(65536), b""))
        _, asker, _ = struct.unpack("3i", knock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        knock.close()
        if request and asker in (0, os.getuid()):
            _become(**json.loads(request))
        status = 0
    except SystemExit as e:
        status = e.code if isinstance(e.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _become(user: str, argv: list[str], env: dict[str, str], memory: int = 0) -> None:
    """Become a server of this user. memory: bytes of data per process, or 0 for no limit."""
    who = pwd.getpwnam(user)
    if memory:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    if os.getuid() == 0:
        os.initgroups(user, who.pw_gid)
        os.setgid(who.pw_gid)
        os.setuid(who.pw_uid)
    libc = ctypes.CDLL(None)
    libc.prctl(DUMPABLE, 1, 0, 0, 0)  # as after an exec, the process belongs to the user, also in /proc
    libc.prctl(NAME, b"jupyterhub-sing", 0, 0, 0)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    os.chdir(who.pw_dir)
    settle()
    sys.argv[:] = argv
    from jupyterhub.singleuser import main as server

    server()


if __name__ == "__main__":
    sys.path[:] = [p for p in sys.path if p != os.path.dirname(os.path.abspath(__file__))]
    main(sys.argv[1], tuple(sys.argv[2:]) or MODULES)
