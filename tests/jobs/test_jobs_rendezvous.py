"""The store in which Gloo's ranks find each other: who can use it, and what becomes of what is sent to it."""

import http.client
import json
import os
import pickle

import pytest

from cluster.jobs.rank import rendezvous

HERE = rendezvous.Position(0, (2,), "t")


class Hostile:
    """Running a pickle of this object creates a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.fixture
def store(tmp_path, monkeypatch):
    """The (address, port, secret) of a served store."""
    monkeypatch.setenv("CLUSTER_LAUNCHER", "local")
    stop = rendezvous._serve(tmp_path / "address.json", HERE)
    yield json.loads((tmp_path / "address.json").read_text())
    stop()


def ask(store, method, path, body=None):
    connection = http.client.HTTPConnection(*store[:2], timeout=10)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_only_who_knows_the_secret_reads_and_writes(store):
    prefix = f"/{store[2]}:{store[1]}"
    assert ask(store, "PUT", f"{prefix}/global/0", b"mine")[0] == 200
    others = ["/global/0", "//global/0", f"/:{store[1]}/global/0", f"/{store[2][:-1]}/global/0",
              f"/{store[2].upper()}x/global/0", "/%c3%a9/global/0", "/", "*"]  # fmt: skip
    for path in others:
        answers = [ask(store, method, path, b"theirs")[0] for method in ("GET", "PUT", "DELETE", "HEAD")]
        assert answers == [403] * 4, path
    assert ask(store, "GET", f"{prefix}/global/0") == (200, b"mine")


def test_no_pickle_that_is_sent_is_run(store, tmp_path):
    """Horovod's elastic handlers unpickle what they receive (CVE-2024-10190, CVE-2026-31234). Is this store
    without them, for everybody?"""
    made = tmp_path / "made"
    hostile = pickle.dumps(Hostile(made))
    for prefix in ("", f"/{store[2]}:{store[1]}"):
        for scope in ("global", "worker_addresses", "put_service", "rank_and_size", "runfunc"):
            ask(store, "PUT", f"{prefix}/{scope}/0", hostile)
            ask(store, "GET", f"{prefix}/{scope}/0")
    assert not made.exists()
    pickle.loads(hostile)
    assert made.exists()  # the pickle would have worked


def test_the_store_is_gone_once_it_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setenv("CLUSTER_LAUNCHER", "local")
    stop = rendezvous._serve(tmp_path / "address.json", HERE)
    store = json.loads((tmp_path / "address.json").read_text())
    assert store[0] == "127.0.0.1" and ask(store, "GET", "/")[0] == 403
    stop()
    with pytest.raises(OSError):
        ask(store, "GET", "/")
