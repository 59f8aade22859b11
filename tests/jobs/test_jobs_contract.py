"""The contract of a job, which is the same on every backend and with every controller."""

import time

import numpy as np
import pytest

from cluster.jobs import attach, errors, submit
from cluster.system import files

from .. import ALL
from . import programs

pytestmark = pytest.mark.ranks
SLURM = pytest.mark.slurm
PAIRS = [("local", "gloo"), pytest.param("slurm", "mpi", marks=SLURM)]
PAIRS += [("local", "mpi"), pytest.param("slurm", "gloo", marks=SLURM)] if ALL else []
# For tests that do not need all pairs: each backend and each controller once. `make test-all` runs all.
each_once = pytest.mark.parametrize(("backend", "controller"), PAIRS, indirect=True, scope="module")


@pytest.fixture(scope="module", params=["gloo", "mpi"])
def controller(request):
    return request.param


@pytest.fixture(scope="module")
def done(backend, controller):
    """A job that ran `programs.everything` on two nodes with one rank each, and has ended."""
    options = {"nodes": 2, "cpus_per_rank": 2, "controller": controller, "env": {"EXTRA": "a b'c"}}
    return submit(programs.everything, 5, **options).wait()


def test_each_rank_returns_its_own_result(done, controller):
    first, second = done.results()
    assert (first["rank"], second["rank"], first["size"], second["size"]) == (0, 1, 2, 2)
    np.testing.assert_array_equal(second["array"], np.ones((2, 3), np.float32))
    assert second["array"].dtype == np.float32
    assert first["nested"] == [(1, "two", None), {3: 0.5}]
    assert done.result(rank=1)["rank"] == 1
    assert first["built"] == [controller == "gloo", controller == "mpi"]


def test_the_ranks_work_together(done):
    """Do both ranks get the same sum: 30, from 10 · 1 on rank 0 and 10 · 2 on rank 1?"""
    assert [r["sum"].tolist() for r in done.results()] == [[30.0], [30.0]]


def test_one_rank_is_a_world_of_one(backend, controller):
    """Is the world size of a job with one rank 1? If Horovod saw only Slurm's variables, it would start MPI,
    which would end the process."""
    assert submit(programs.world_size, controller=controller).result() == 1


def test_threads_and_variables_reach_the_ranks(done):
    assert all(r["threads"] == ["2", "2"] and r["extra"] == "a b'c" for r in done.results())


def test_the_ranks_know_their_nodes(done, backend, controller):
    """Is the local size 1, because each rank is alone on its node? With mpirun on the local backend it is 2,
    because MPI notices that both simulated nodes are one machine."""
    assert done.result()["local_size"] == (2 if (backend, controller) == ("local", "mpi") else 1)


def test_logs_hold_what_python_and_libraries_print(done):
    assert done.logs(1) == "rank 1 of 2\nfrom a library\n"
    assert "--- rank 0\nrank 0 of 2" in done.logs()


def test_follow_prints_all_of_it_with_ranks(done, capsys):
    done.follow()
    assert {"[0] rank 0 of 2", "[1] rank 1 of 2"} <= set(capsys.readouterr().out.splitlines())


def test_metrics_are_a_data_frame(done):
    frame = done.metrics()
    assert list(frame.columns) == ["rank", "time", "step", "steps", "loss", "seen"]
    assert frame.groupby("rank").step.apply(list).to_dict() == {0: [1, 2, 3, 4, 5], 1: [1, 2, 3, 4, 5]}
    assert frame.loss[frame.step == 4].tolist() == [0.25, 0.25]
    end = files.read_json(done.folder / "end.json")
    assert frame.time.is_monotonic_increasing and 0 < frame.time.max() < end["ended"] - end["started"]


def test_the_folder_is_the_record(done, backend):
    assert done.status == "done" and done.status.ended and done.backend == backend
    assert done.folder.stat().st_mode & 0o777 == 0o700
    assert (done.folder / "checkpoint.txt").read_text() == "weights"
    assert "def everything" in (done.folder / "code.py").read_text()
    assert "SCALE = 10.0" in (done.folder / "code.py").read_text()
    assert "a b'c" not in (done.folder / "run.json").read_text()  # env may contain secrets
    assert {"python", "tensorflow", "horovod", "numpy"} <= set(done.spec["versions"])


def test_the_same_run_is_replayed_by_any_handle(done, controller, capsys):
    options = {"nodes": 2, "controller": controller, "cpus_per_rank": 2, "env": {"EXTRA": "a b'c"}}
    again = submit(programs.everything, steps=5, name="other name", time="00:01:00", **options)
    assert again.folder == done.folder and done.id in capsys.readouterr().out
    assert again.result()["rank"] == 0
    assert attach(done.id).results()[1]["sum"] == [30.0]
    assert attach(done.folder).key == done.key


@each_once
def test_an_exception_on_one_rank_ends_the_job(backend, controller):
    job = submit(programs.fails_on_rank_1, nodes=2, controller=controller)
    with pytest.raises(errors.RankFailed, match="KeyError on rank 1: 'conv2'") as caught:
        job.result()
    raised = files.read_json(job.folder / "error-1.json")["time"]
    assert files.read_json(job.folder / "end.json")["ended"] - raised < 240  # rank 0 would sleep for 300 s
    trace = caught.value.traceback
    assert trace.splitlines()[1].endswith("in fails_on_rank_1")  # without the runner's frames
    assert 'return layers["conv2"]' in trace and trace in str(caught.value) + "\n"
    assert caught.value.rank == 1 and job.status == "failed"


@each_once
def test_a_killed_rank_is_named_with_its_signal(backend, controller):
    job = submit(programs.killed_on_rank_1, nodes=2, controller=controller)
    with pytest.raises(errors.RankKilled, match=r"Rank 1 .* SIGSEGV"):
        job.result()
    assert "killed_on_rank_1" in job.logs(1)  # the log shows the function that crashed


def test_a_wrong_world_size_is_found_before_the_code_runs(backend, controller, tmp_path):
    """Is a wrong world size detected before the user's code runs? Without a rendezvous, each rank is alone,
    and Horovod raises no error."""
    alone = {"gloo": {"HOROVOD_RANK": 0, "HOROVOD_SIZE": 1}, "mpi": {"HOROVOD_CONTROLLER": "gloo"}}
    alone["mpi"]["HOROVOD_CPU_OPERATIONS"] = "gloo"
    trace = tmp_path / "trace"
    job = submit(programs.touches, str(trace), nodes=2, controller=controller, env=alone[controller])
    with pytest.raises(errors.WrongWorldSize, match=r" 1 rank\(s\).* 2"):
        job.result()
    assert not trace.exists()


@each_once
def test_cancel_ends_a_running_job(backend, controller):
    job = submit(programs.sleeps, 300, controller=controller)
    while "asleep" not in job.logs(0):
        assert not job.status.ended
        time.sleep(0.1)
    with pytest.raises(errors.NotFinished, match=r"running after 0\.2 s"):
        job.wait(timeout=0.2)
    start = time.monotonic()
    assert job.cancel().wait().status == "cancelled" and time.monotonic() - start < 240
    with pytest.raises(errors.Cancelled):
        job.result()


def test_a_finished_run_runs_again_only_when_asked(backend, tmp_path, capsys):
    calls = str(tmp_path / "calls")
    first = submit(programs.counts_calls, calls)
    assert first.result() == 1
    assert submit(programs.counts_calls, calls).result() == 1
    assert submit(programs.counts_calls, calls, rerun=True).result() == 2
    assert f"{first.id}." in capsys.readouterr().out
    assert first.result() == attach(first.id).result() == 1 and first.id.endswith(".1")
    second = attach(first.id[:-5])
    third = submit(programs.counts_calls, calls, rerun=True)
    assert (second.result(), third.result(), first.result()) == (2, 3, 1)
    assert [first.folder.name, second.id] == [f"{third.id}.1", f"{third.id}.2"]


def test_a_failed_run_is_not_replayed(backend, capsys):
    for _ in range(2):
        job = submit(programs.exits)
        with pytest.raises(errors.RankFailed, match="SystemExit on rank 0: 7"):
            job.result()
    assert f"{job.id}.1" in capsys.readouterr().out


def test_a_running_job_is_attached_to_not_doubled(backend, capsys):
    job = submit(programs.sleeps, 60)
    assert submit(programs.sleeps, 60).folder == job.folder
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"{job.id} is ")
    with pytest.raises(errors.StillRunning):
        submit(programs.sleeps, 60, rerun=True)
    job.cancel()


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (programs.returns_object, errors.ResultError, r"result\['history'\]\[1\]\['model'\] .* object"),
        (programs.returns_too_much, errors.ResultTooLarge, r"(?s)2\.3 MiB.* 1 MiB"),
    ],
)
def test_a_result_that_cannot_be_stored_is_named(backend, function, error, message):
    job = submit(function, env={"CLUSTER_MAX_RESULT": 2**20})
    with pytest.raises(error, match=message):
        job.result()
    assert job.status == "done" and job.result(partial=True) is not None


def test_a_script_runs_with_its_arguments(backend, tmp_path):
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    script = tmp_path / "a script's name; $(touch x).py"
    script.write_text("import sys, beside\nprint(sys.argv[1:], beside.NAME, __name__)\n")
    job = submit(script, "--epochs", 3, "a b; $(touch y)")
    assert job.result() is None
    assert job.logs(0) == "['--epochs', '3', 'a b; $(touch y)'] beside __main__\n"
    script.write_text("# a comment\nimport sys, beside\nprint(sys.argv[1:], beside.NAME, __name__)\n")
    assert submit(script, "--epochs", "3", "a b; $(touch y)").folder == job.folder
    (tmp_path / "beside.py").write_text("NAME = 'another'\n")
    assert submit(script, "--epochs", "3", "a b; $(touch y)").result() is None


def test_a_job_that_timed_out_reports_it(backend, request):
    """Does a job that exceeds its time limit end with OutOfTime?

    Slurm enforces time limits only once a minute, so its job is submitted at the beginning of the session.
    """
    if backend == "slurm":
        job = attach(request.getfixturevalue("overdue"))
    else:
        job = submit(programs.sleeps, 300, time="00:00:01")
    with pytest.raises(errors.OutOfTime, match=r"00:0[01]:0[01]"):
        job.wait(150).result()
    assert job.status == "out of time"
