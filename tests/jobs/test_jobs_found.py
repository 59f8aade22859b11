"""Jobs find the single-host Slurm of `make slurm` automatically, if it is running and trusted."""

import json
import os
import re
import subprocess
import sys

import pytest

from cluster.jobs import submit
from cluster.slurm import client
from cluster.staff.one_machine_slurm import slurm_folder
from cluster.staff.services import HubError
from cluster.system import processes
from tests import fakes

from . import programs


@pytest.fixture
def state(tmp_path, monkeypatch):
    """A state folder as `make slurm` leaves it, in which this process is recorded as slurmctld."""
    monkeypatch.setenv("CLUSTER_STATE", str(tmp_path))
    monkeypatch.delenv("SLURM_CONF", raising=False)
    monkeypatch.setattr(client, "PLACES", ())
    monkeypatch.setattr(client, "_answers", {})
    folder = tmp_path / "slurm"
    folder.mkdir(mode=0o755)
    (folder / "slurm.conf").write_text("ClusterName=course\n")
    (folder / "processes.json").write_text(json.dumps({"slurmctld": processes.identify(os.getpid())}))
    return folder


def test_where_it_runs_its_commands_get_its_configuration(state, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    for name in ("sbatch", "scontrol"):
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\necho "{name} UP $SLURM_CONF $EXTRA"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert client.conf() == str(state / "slurm.conf") and client.no_slurm() is None
    assert client.ask("sbatch").split() == ["sbatch", "UP", str(state / "slurm.conf")]
    env = {"PATH": os.environ["PATH"], "EXTRA": "1"}
    assert client.ask("sbatch", env=env).split()[2:] == [str(state / "slurm.conf"), "1"]
    assert "SLURM_CONF" not in os.environ


def test_what_was_named_or_is_usual_comes_first(state, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", "/named")
    assert client.conf() == client.environment()["SLURM_CONF"] == "/named"
    monkeypatch.delenv("SLURM_CONF")
    usual = tmp_path / "usual.conf"
    usual.touch()
    monkeypatch.setattr(client, "PLACES", (str(usual),))
    assert client.conf() == str(usual) and "SLURM_CONF" not in client.environment()


@pytest.mark.parametrize(
    "how", ["stopped", "gone", "damaged", "folder for all", "file for all", "of another"]
)
def test_what_does_not_run_or_is_not_to_be_trusted_is_not_used(state, how):
    """Is the single-host Slurm ignored if it is not running, or if other users can change its files? (A
    slurm.conf can name a plugin, which sbatch would load.)"""
    if how == "stopped":
        ended = subprocess.Popen([sys.executable, "-c", ""])
        record = processes.identify(ended.pid)
        ended.wait()
        (state / "processes.json").write_text(json.dumps({"slurmctld": record}))
    elif how == "gone":
        (state / "slurm.conf").unlink()
    elif how == "damaged":
        (state / "processes.json").write_text("{")
    elif how == "of another":
        if os.getuid():
            pytest.skip("only root can make what belongs to another user")
        os.chown(state / "slurm.conf", 12345, -1)
    else:
        (state if how == "folder for all" else state / "slurm.conf").chmod(0o777)
    assert client.conf() is None and "SLURM_CONF" not in client.environment()


@pytest.mark.parametrize(
    ("inside", "used"), [(".", True), ("..", True), (None, True), ("cluster", False), ("../elsewhere", False)]
)
def test_the_slurm_of_another_folder_is_neither_used_nor_touched(state, inside, used, monkeypatch):
    """Is the Slurm of another course's folder used only with SLURM_CONF, and named? Can it be stopped or
    started from here?"""
    fakes.commands(state.parent / "bin", sbatch="", scontrol="exit 1")
    monkeypatch.setenv("PATH", str(state.parent / "bin"), prepend=":")
    record = {} if inside is None else {"course": os.path.normpath(client.COURSE / inside)}
    (state / "started.json").write_text(json.dumps(record))
    assert (client.conf() == str(state / "slurm.conf")) == used
    if used:
        return slurm_folder.refuse_foreign(state)
    with pytest.raises(HubError, match=re.escape(record["course"])):
        slurm_folder.refuse_foreign(state)
    assert record["course"] in client.no_slurm() and str(state / "slurm.conf") in client.no_slurm()
    monkeypatch.setenv("SLURM_CONF", str(state / "slurm.conf"))
    assert client.conf() == str(state / "slurm.conf")
    (state / "processes.json").write_text("{}")
    slurm_folder.refuse_foreign(state)  # it has stopped, so anybody may start it


@pytest.mark.slurm
def test_a_job_goes_to_the_real_one_without_any_variable(own, tmp_path, monkeypatch):
    """Without SLURM_CONF and CLUSTER_BACKEND, do jobs from this process and from a new one run on the
    single-host Slurm?"""
    monkeypatch.setenv("CLUSTER_STATE", str(own.folder))
    for name in ("SLURM_CONF", "CLUSTER_BACKEND"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLUSTER_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(client, "_answers", {})
    job = submit(programs.counts_calls, str(tmp_path / "calls"))
    assert job.backend == "slurm" and job.result() == 1
    code = "import os; from cluster import submit; print(submit(os.getppid).wait().backend)"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout.split()[-1] == "slurm"
