"""The job records in assignment 05 are up to date, reveal nothing about a machine, and have correct names."""

import json

import pytest

from cluster.jobs.run import endings
from cluster.slurm import states
from tests.records import text

KINDS = {
    "RankFailed": "dead rank",
    "RankKilled": "dead rank",
    "OutOfMemory": "out of memory",
    "OutOfTime": "out of time",
    "Preempted": "preempted",
    "WrongWorldSize": "wrong world size",
    "Done": "nothing wrong",
}
OF_THE_SIX = ("dead rank", "never runs", "preempted", "out of memory", "wrong world size", "out of time")
CALLED = dict(zip(text.SIX.values(), OF_THE_SIX, strict=True))
CALLED |= {name: kind for kind, names in text.HIDDEN.items() for name in names}


@pytest.fixture(scope="module")
def recorded():
    return json.loads(text.RECORDS.read_text())


def test_the_assignment_has_the_records(recorded):
    """Do the assignment's cells contain the recorded data, and was it recorded with the current code?"""
    assert text.filled(text.TWIN.read_text(), recorded["records"]) == text.TWIN.read_text()
    assert recorded["made"]["sha256"] == text.digest(), "the jobs have changed: python -m tests.records"


def test_they_name_nothing_of_the_machine(recorded):
    """Are the records free of paths, and of host names other than node1, node2 and node3?"""
    assert "/" not in json.dumps(recorded["records"]).replace("launch/slurm", "")
    hosts = {rank["host"] for record in recorded["records"].values() for rank in record["ranks"]}
    assert hosts == {"node1", "node2", "node3"}


@pytest.mark.parametrize("name", CALLED)
def test_a_record_is_what_it_is_called(recorded, name):
    """Does the package diagnose each record as the failure that the assignment names?"""
    record = recorded["records"][name]
    preempted = any("PREEMPTION" in line for line in record["job log"])
    if record["queue"] and not preempted:
        reason = record["queue"].split()[-1]
        assert ("never runs" if states.reason(reason).never else "nothing wrong") == CALLED[name]
        return
    run = {"ranks": record["asked"]["nodes"] * record["asked"]["ranks_per_node"], "options": record["asked"]}
    ranks = [rank | {"exit_code": rank["exit code"]} for rank in record["ranks"]]
    more = {"traceback": "", "what": "", "next_step": ""}
    errors = {e["rank"]: e | {"time": e["at"]} | more for e in record["errors"]}
    ending = endings.decide(run, ranks, errors, log="\n".join(record["job log"]))["ending"]
    silent = ending == "Done" and {result["world size"] for result in record["returned"]} != {run["ranks"]}
    assert ("wrong world size" if silent else KINDS[ending]) == CALLED[name]
