# ruff: noqa: SIM905
"""Is a job that waits for a limit only told that it can never run if no other job's end can help?"""

import pytest

from cluster.slurm import states

# From Slurm's list of reasons: per job, so nothing changes by waiting; or shared, so it starts later.
NEVER = (
    "QOSMaxCpuPerJobLimit QOSMaxWallDurationPerJobLimit QOSMaxCpuMinutesPerJobLimit "
    "QOSMaxNodePerJobLimit QOSMaxMemoryPerJob QOSMaxGRESPerJob QOSMaxCpuPerNode "
    "QOSMinCpuNotSatisfied QOSMinGRES QOSNotAllowed AssocMaxCpuPerJobLimit "
    "AssocMaxWallDurationPerJobLimit AssocMaxGRESPerJob AccountNotAllowed MaxMemPerLimit "
    "PartitionTimeLimit BadConstraints InvalidAccount InvalidQOS "
).split()
LATER = (
    "QOSMaxGRESPerUser QOSMaxJobsPerUserLimit QOSMaxCpuPerUserLimit QOSMaxNodePerUserLimit "
    "QOSMaxMemoryPerUser QOSMaxSubmitJobPerUserLimit QOSMaxCpuPerAccount QOSMaxGRESPerAccount "
    "QOSGrpCpuLimit QOSGrpGRES QOSGrpJobsLimit AssocGrpCpuLimit AssocGrpGRES AssocGrpJobsLimit "
    "AssocGrpMemLimit AssocGrpCPURunMinutesLimit AssocMaxJobsLimit AssocMaxSubmitJobLimit "
    "PartitionNodeLimit ReqNodeNotAvail Resources Priority SomethingNew "
).split()


@pytest.mark.parametrize("name", NEVER)
def test_limits_of_one_job_are_final(name):
    assert states.reason(name).never


@pytest.mark.parametrize("name", LATER)
def test_limits_that_other_jobs_share_are_waited_for(name):
    assert not states.reason(name).never


def test_a_budget_that_is_used_up_is_told_apart_from_jobs_that_run():
    assert "used up" in states.reason("AssocGrpCPUMinutesLimit").what
    assert "used up" in states.reason("QOSGrpGRESMinutes").what
    assert "ended" in states.reason("AssocGrpCPURunMinutesLimit").step
