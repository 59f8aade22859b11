# ruff: noqa: SIM905
"""Does the table classify each of Slurm's reasons for pending correctly, as final or as temporary?

The names are all those in src/common/job_state_reason.c of Slurm 20.11 to 26.11. Their classification follows
Slurm's manual (https://slurm.schedmd.com/job_reason_codes.html) and src/slurmctld (acct_policy.c, job_mgr.c).
"""

import pytest

from cluster.slurm import states

# Final: waiting does not help unless the job or the site's configuration is changed.
FINAL = """
    AccountNotAllowed AssocMaxBBMinutesPerJob AssocMaxBBPerJob AssocMaxBBPerNode
    AssocMaxBillingMinutesPerJob AssocMaxBillingPerJob AssocMaxBillingPerNode
    AssocMaxCpuMinutesPerJobLimit AssocMaxCpuPerJobLimit AssocMaxCpuPerNode AssocMaxEnergyMinutesPerJob
    AssocMaxEnergyPerJob AssocMaxEnergyPerNode AssocMaxGRESMinutesPerJob AssocMaxGRESPerJob
    AssocMaxGRESPerNode AssocMaxLicenseMinutesPerJob AssocMaxLicensePerJob AssocMaxMemMinutesPerJob
    AssocMaxMemPerJob AssocMaxMemPerNode AssocMaxNodeMinutesPerJob AssocMaxNodePerJobLimit
    AssocMaxUnknownMinutesPerJob AssocMaxUnknownPerJob AssocMaxUnknownPerNode
    AssocMaxWallDurationPerJobLimit BadConstraints BurstBufferOperation DependencyNeverSatisfied
    InvalidAccount InvalidQOS MaxMemPerLimit PartitionConfig PartitionTimeLimit QOSMaxBBPerJob
    QOSMaxBBPerNode QOSMaxBillingMinutesPerJob QOSMaxBillingPerJob QOSMaxBillingPerNode
    QOSMaxCpuMinutesPerJobLimit QOSMaxCpuPerJobLimit QOSMaxCpuPerNode QOSMaxEnergyMinutesPerJob
    QOSMaxEnergyPerJob QOSMaxEnergyPerNode QOSMaxGRESMinutesPerJob QOSMaxGRESPerJob QOSMaxGRESPerNode
    QOSMaxLicenseMinutesPerJob QOSMaxLicensePerJob QOSMaxMemoryMinutesPerJob QOSMaxMemoryPerJob
    QOSMaxMemoryPerNode QOSMaxNodeMinutesPerJob QOSMaxNodePerJobLimit QOSMaxUnknownMinutesPerJob
    QOSMaxUnknownPerJob QOSMaxUnknownPerNode QOSMaxWallDurationPerJobLimit QOSMinBB QOSMinBilling
    QOSMinCpuNotSatisfied QOSMinEnergy QOSMinGRES QOSMinLicense QOSMinMemory QOSMinNode QOSMinUnknown
    QOSNotAllowed ReservationDeleted ReservationInvalid
""".split()
# Limits shared by several jobs: the job starts when other jobs of the user, the account or the QOS have
# ended.
SHARED = """
    AccountingPolicy AssocGrpBB AssocGrpBBRunMinutes AssocGrpBilling AssocGrpBillingRunMinutes
    AssocGrpCPURunMinutesLimit AssocGrpCpuLimit AssocGrpEnergy AssocGrpEnergyRunMinutes AssocGrpGRES
    AssocGrpGRESRunMinutes AssocGrpJobsLimit AssocGrpLicense AssocGrpLicenseRunMinutes AssocGrpMemLimit
    AssocGrpMemRunMinutes AssocGrpNodeLimit AssocGrpNodeRunMinutes AssocGrpSubmitJobsLimit
    AssocGrpUnknown AssocGrpUnknownRunMinutes AssocMaxJobsLimit AssocMaxSubmitJobLimit
    AssociationJobLimit AssociationResourceLimit AssociationTimeLimit MaxBBPerAccount
    MaxBBRunMinsPerAccount MaxBBRunMinsPerUser MaxBillingPerAccount MaxBillingRunMinsPerAccount
    MaxBillingRunMinsPerUser MaxCpuPerAccount MaxCpuRunMinsPerAccount MaxCpuRunMinsPerUser
    MaxEnergyPerAccount MaxEnergyRunMinsPerAccount MaxEnergyRunMinsPerUser MaxGRESPerAccount
    MaxGRESRunMinsPerAccount MaxGRESRunMinsPerUser MaxJobsPerAccount MaxLicensePerAccount
    MaxLicenseRunMinsPerAccount MaxLicenseRunMinsPerUser MaxMemoryPerAccount MaxMemoryRunMinsPerAccount
    MaxMemoryRunMinsPerUser MaxNodePerAccount MaxNodeRunMinsPerAccount MaxNodeRunMinsPerUser
    MaxSubmitJobsPerAccount MaxUnknownPerAccount MaxUnknownRunMinsPerAccount MaxUnknownRunMinsPerUser
    QOSGrpBB QOSGrpBBRunMinutes QOSGrpBilling QOSGrpBillingRunMinutes QOSGrpCPURunMinutesLimit
    QOSGrpCpuLimit QOSGrpEnergy QOSGrpEnergyRunMinutes QOSGrpGRES QOSGrpGRESRunMinutes QOSGrpJobsLimit
    QOSGrpLicense QOSGrpLicenseRunMinutes QOSGrpMemLimit QOSGrpMemoryRunMinutes QOSGrpNodeLimit
    QOSGrpNodeRunMinutes QOSGrpSubmitJobsLimit QOSGrpUnknown QOSGrpUnknownRunMinutes QOSJobLimit
    QOSMaxBBPerUser QOSMaxBillingPerUser QOSMaxCpuPerUserLimit QOSMaxEnergyPerUser QOSMaxGRESPerUser
    QOSMaxJobsPerUserLimit QOSMaxLicensePerUser QOSMaxMemoryPerUser QOSMaxNodePerUserLimit
    QOSMaxSubmitJobPerUserLimit QOSMaxUnknownPerUser QOSResourceLimit QOSTimeLimit
""".split()
# A budget of computing time is used up, also by jobs that have ended.
BUDGET = """
    AssocGrpBBMinutes AssocGrpBillingMinutes AssocGrpCPUMinutesLimit AssocGrpEnergyMinutes
    AssocGrpGRESMinutes AssocGrpLicenseMinutes AssocGrpMemMinutes AssocGrpNodeMinutes
    AssocGrpUnknownMinutes AssocGrpWallLimit QOSGrpBBMinutes QOSGrpBillingMinutes QOSGrpCPUMinutesLimit
    QOSGrpEnergyMinutes QOSGrpGRESMinutes QOSGrpLicenseMinutes QOSGrpMemoryMinutes QOSGrpNodeMinutes
    QOSGrpUnknownMinutes QOSGrpWallLimit
""".split()
# An administrator must help, or may have to.
ADMINISTRATOR = """
    BlockFreeAction BlockMaxError FrontEndDown JobHeldAdmin JobHoldMaxRequeue JobLaunchFailure
    ReqNodeNotAvail SystemFailure
""".split()
# The job starts by itself, or its user releases it.
WAITS = """
    BeginTime BurstBufferResources BurstBufferStageIn Cleaning Constraints Dependency FedJobLock
    JobArrayTaskLimit JobHeldUser Licenses MaxPoweredUpNodes MpiPortsBusy NodeDown None
    NvidiaImexChannels PartitionDown PartitionInactive PartitionNodeLimit PowerNotAvail PowerReserved
    Priority Prolog QOSUsageThreshold Reservation Resources
""".split()
# Slurm gives these reasons for jobs that have ended, not for pending ones.
ENDED = """
    DeadLine InactiveLimit NonZeroExitCode OutOfMemory RaisedSignal SchedDefer TimeLimit
""".split()

# Sentences that slurmctld prints instead of a name (job_mgr.c, job_scheduler.c, node_scheduler.c,
# reservation.c).
SENTENCES = {
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions": "down",
    "ReqNodeNotAvail, Reserved for maintenance": "maintenance",
    "ReqNodeNotAvail, UnavailableNodes:node[1-2]": "down",
    "ReqNodeNotAvail, May be reserved for other job": "reserved",
    "launch failed requeued held": "could not start it",
    "user env retrieval failed requeued held": "could not start it",
    "launch failure limit exceeded requeued held": "as often",
    "job requeued in held state": "is held",
    "License request 'x:1' is no longer valid, holding job": "licence",
}
FINAL_SENTENCES = {
    "Reservation course was deleted": "reservation was deleted",
    "Reservation course is invalid": "no longer valid",
    "uid 1000 not in group permitted to use this partition (gpu). groups allowed: course": "group",
    "Job's account not permitted to use this partition (gpu allows a not b)": "account",
    "Job's QOS not permitted to use this partition (gpu denies a including b)": "QOS",
    "Job's QOS not known, so it can't use this partition (gpu allows a)": "QOS",
}


def known(name):
    """Return the table's row for a name; fail if there is none."""
    row = states.reason(name)
    assert row in states.REASONS, f"{name} has no row"
    return row


@pytest.mark.parametrize("name", FINAL)
def test_limits_of_one_job_are_final(name):
    assert known(name).never and known(name).step


@pytest.mark.parametrize("name", SHARED)
def test_limits_that_jobs_share_end_when_other_jobs_end(name):
    assert not known(name).never and "ended" in known(name).step


@pytest.mark.parametrize("name", BUDGET)
def test_a_budget_that_is_used_up_is_distinguished_from_jobs_that_run(name):
    assert not known(name).never and "used up" in known(name).what and "administrator" in known(name).step


@pytest.mark.parametrize("name", ADMINISTRATOR)
def test_an_administrator_is_named_where_only_one_can_help(name):
    assert not known(name).never and known(name).whose == states.CLUSTER
    assert "administrator" in known(name).step


@pytest.mark.parametrize("name", WAITS)
def test_what_passes_by_itself_is_waited_for(name):
    assert not known(name).never


def test_a_reason_that_no_table_has_is_shown_as_it_is():
    """If a newer Slurm gives an unknown reason, is the job considered able to run, and is the full text
    shown?"""
    for name in (*ENDED, "SomethingNew", "Something new, with a (comma)"):
        row = states.reason(name)
        assert not row.never and name in row.what


@pytest.mark.parametrize(("text", "word"), (SENTENCES | FINAL_SENTENCES).items())
def test_a_sentence_in_place_of_a_reason_is_understood(text, word):
    row = known(text)
    assert word in row.what and row.never == (text in FINAL_SENTENCES)


@pytest.mark.parametrize("name", ["PartitionTimeLimit", "PartitionConfig"])
def test_a_limit_of_one_partition_is_not_final_if_the_job_has_others(name):
    """If one of a job's partitions has too low a limit, is the job considered able to run in the other? Slurm
    reports only the reason of the last partition it tried."""
    assert states.reason(name, "short").never
    row = states.reason(name, "short,long")
    assert not row.never and name in row.what
