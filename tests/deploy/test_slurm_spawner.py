"""Test servers as Slurm jobs: time in the queue must not count as start-up time, and the page must show that
the job is pending."""

import asyncio
from types import SimpleNamespace

import pytest

batchspawner = pytest.importorskip("batchspawner")

from cluster.staff.hub.site import slurm_spawner  # noqa: E402

PENDING, RUNNING, GONE = "PENDING n/a Resources", "RUNNING node7 None", ""


class Fake(slurm_spawner.QueuedSpawner):
    """A spawner whose job goes through the states in `told`, and stays in the last one."""

    db = SimpleNamespace(commit=lambda: None)
    startup_poll_interval = 0.001

    def __init__(self, *told, answers=False):
        super().__init__()
        self.told, self.answers, self.asked = list(told), answers, 0

    async def submit_batch_script(self):
        self.job_id, self.port = "8", 0

    async def query_job_status(self):
        self.job_status = self.told[min(self.asked, len(self.told) - 1)]
        self.asked += 1
        if self.answers and self.job_status == RUNNING:
            self.port = 4567
        if self.state_ispending():
            return batchspawner.JobStatus.PENDING
        return batchspawner.JobStatus.RUNNING if self.state_isrunning() else batchspawner.JobStatus.NOTFOUND


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr(slurm_spawner, "LOOKS", 0.002)


def test_time_in_the_queue_does_not_count():
    """If a job waits in the queue for longer than the start timeout and then starts quickly, does the
    server's start succeed?"""
    spawner = Fake(*[PENDING] * 100, RUNNING, answers=True)
    spawner.starts_within = 0.05
    assert asyncio.run(spawner.start()) == ("node7", 4567)


@pytest.mark.parametrize(("last", "message"), [(RUNNING, "jupyterhub_slurmspawner_8.log"), (GONE, "job 8")])
def test_a_server_that_does_not_come_is_given_up(last, message):
    """If the server never answers, or its job ends, does the error name the job and the reason?"""
    spawner = Fake(PENDING, RUNNING, RUNNING, last)
    spawner.starts_within = 0.2
    with pytest.raises(RuntimeError, match=message):
        asyncio.run(spawner.start())


def test_the_page_says_that_it_waits():
    """Does the progress page show each reason for waiting once, and then that the job is running?"""

    async def messages():
        spawner = Fake()
        spawner.job_id, told = "8", [PENDING, PENDING, PENDING.replace("Resources", "Priority"), RUNNING]
        results = []
        spawner.job_status = told.pop(0)
        async for event in spawner.progress():
            results.append(event["message"])
            while told and spawner.job_status == (following := told.pop(0)):
                pass
            spawner.job_status = following
        return results

    first, second, last = asyncio.run(messages())
    assert "job 8" in first and "(Resources)" in first
    assert "(Priority)" in second and "(" not in last
