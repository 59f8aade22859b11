"""A real JupyterHub without a proxy and without users' servers, for tests of the hub's own pages and API."""

import contextlib
import subprocess
import sys
import time

import requests

CONFIG = """
from jupyterhub.proxy import Proxy

class NoProxy(Proxy):
    table = {{}}
    async def start(self):
        pass
    async def stop(self):
        pass
    async def add_route(self, routespec, target, data):
        self.table[routespec] = {{"routespec": routespec, "target": target, "data": data}}
    async def delete_route(self, routespec):
        self.table.pop(routespec, None)
    async def get_all_routes(self):
        return self.table

c.JupyterHub.proxy_class = NoProxy
c.JupyterHub.bind_url = c.JupyterHub.hub_bind_url = "{url}"
c.JupyterHub.db_url = "sqlite:///:memory:"
c.JupyterHub.cookie_secret = b"0" * 32
import sys
sys.path[:0] = {modules}
"""


@contextlib.contextmanager
def running(folder, url, text, *modules):
    """Run a hub at `url`, with the configuration `text` and folders of modules that it imports; its log is in
    `folder`."""
    text = CONFIG.format(url=url, modules=[*map(str, modules)]) + text
    (folder / "config.py").write_text(text)
    with open(folder / "log", "wb") as log:
        command = [sys.executable, "-P", "-m", "jupyterhub", "-f", str(folder / "config.py")]
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        until = time.monotonic() + 600
        while not _answers(url):
            assert process.poll() is None and time.monotonic() < until, (folder / "log").read_text()
            time.sleep(0.3)
        yield
    finally:
        process.terminate()
        process.wait(30)


def _answers(url):
    try:
        return requests.get(f"{url}/hub/api/", timeout=10).ok
    except (requests.ConnectionError, requests.Timeout):
        return False
