"""A Jupyter server under a base URL like JupyterHub's, and the contents of a student's folder."""

import contextlib
import getpass
import http.cookiejar
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

from nbformat.v4 import new_code_cell, new_notebook, writes

from .. import ROOT, ports

TOKEN = "secret"


def notebook(*cells):
    return writes(new_notebook(cells=list(cells)))


def solution(source):
    return new_code_cell(source, metadata={"nbgrader": {"solution": True}})


def people(course):
    return course.parent / "people" / getpass.getuser()


class Server:
    """A running server, with one client that is logged in (`browser`) and one that is not (`stranger`)."""

    def __init__(self, url):
        self.url = url
        self.cookies = http.cookiejar.CookieJar()
        self.browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))
        self.stranger = urllib.request.build_opener()

    def get(self, path, opener=None, data=None):
        """Request a page, by POST if `data` is given; return (status, text, headers), also for errors."""
        body = urllib.parse.urlencode(data).encode() if data is not None else None
        try:
            with (opener or self.browser).open(self.url + path, body, timeout=240) as answer:
                return answer.status, answer.read().decode(), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), error.headers

    def put(self, path, value):
        """Write a file through the server's own API, as JupyterLab does."""
        headers = {"Authorization": f"token {TOKEN}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, json.dumps(value).encode(), headers, method="PUT")
        with self.stranger.open(request, timeout=240) as answer:
            return answer.status


@contextlib.contextmanager
def serving(root, home, extensions, more=None, **settings):
    """Yield a Server for the folder `root`, with these extensions and the home folder `home`.

    more: additional environment variables. settings: configuration as {class: {trait: value}}.
    """
    port = ports.free()
    command = [
        sys.executable, "-m", "jupyter_server", "--allow-root", "--no-browser", f"--port={port}",
        "--port-retries=0", "--ServerApp.base_url=/user/ada/", f"--IdentityProvider.token={TOKEN}",
        f"--ServerApp.root_dir={root}",
    ]  # fmt: skip
    file = home / ".jupyter" / "jupyter_server_config.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"ServerApp": {"jpserver_extensions": extensions}, **settings}))
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "CLUSTER_RUNS"))}
    env |= {"HOME": str(home), "PYTHONPATH": str(ROOT), "TZ": "UTC"} | (more or {})
    with open(home / "log", "wb") as log:
        process = subprocess.Popen(command, env=env, cwd=root, stdout=log, stderr=log)
    server = Server(f"http://127.0.0.1:{port}/user/ada/")
    try:
        until = time.monotonic() + 600
        while True:
            try:
                status, _, _ = server.get(f"course?token={TOKEN}")
                assert status == 200, (home / "log").read_text()
                break
            except urllib.error.URLError:
                assert process.poll() is None and time.monotonic() < until, (home / "log").read_text()
                time.sleep(0.2)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            process.kill()  # a server that does not end would slow all later tests
