"""The local backend, folders of runs, and the display of jobs. Jobs have one rank and no Horovod, so each
test is short."""

import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from xml.etree import ElementTree

import numpy as np
import pytest

import cluster
from cluster.__main__ import main
from cluster.jobs import attach, backends, errors, log, metrics, run_folder, submit
from cluster.jobs.code import pickling, program
from cluster.jobs.run import layout, shared
from cluster.jobs.run.run_folder import Run
from cluster.slurm import client
from cluster.system.files import read_json, write_json_once

from .. import ROOT
from . import programs, until

LOCK = threading.Lock()


def uses_lock():
    return LOCK


def takes(value):
    return value


def calls_uses_lock():
    return uses_lock()


def raises(text):
    raise ValueError(text)


def refers_to_a_generator():
    batches = (i for i in range(3))
    return lambda: next(batches)


def refers_to_an_unbound_name():
    batches = (i for i in range(3))
    if batches is None:
        later = 1
    return lambda: later + next(batches)


def calls_each_other():
    lock = threading.Lock()

    def even(n=2):
        return n == 0 or odd(n - 1)

    def odd(n):
        with lock:
            return n != 0 and even(n - 1)

    return even


@pytest.mark.parametrize(
    ("function", "args", "message"),
    [
        (uses_lock, (), r"uses_lock\(\) .* 'LOCK', a _thread.lock"),
        (calls_uses_lock, (), r"uses_lock\(\) .* 'LOCK'"),
        (takes, (threading.Lock(),), r"takes\(\) .* 'value', a _thread.lock"),
        (refers_to_a_generator(), (), "'batches', a generator"),
        (refers_to_an_unbound_name(), (), "'batches', a generator"),
        (calls_each_other(), (), r"odd\(\) .* 'lock', a _thread.lock"),
    ],
)
def test_what_cannot_be_sent_is_named(runs, function, args, message):
    with pytest.raises(errors.NotPicklable, match=message):
        submit(function, *args)
    assert not runs.exists()


def test_too_many_ranks_are_refused_with_the_way_out(runs, monkeypatch):
    monkeypatch.setenv("CLUSTER_MAX_RANKS", "3")
    with pytest.raises(errors.TooManyRanks, match=r"^4 ranks") as caught:
        submit(takes, 1, nodes=2, ranks_per_node=2)
    assert "CLUSTER_MAX_RANKS=4" in caught.value.next_step


def sees(path):
    """Return what the rank sees of the GPUs, once the file exists (for at most a minute)."""
    deadline = time.monotonic() + 60
    while path and not os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(0.02)
    return os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH")


@pytest.fixture
def three_gpus(runs, tmp_path, monkeypatch):
    """A program nvidia-smi that lists three GPUs, and no jobs of others on them."""
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nprintf '0\\n1\\n2\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return runs


def test_each_rank_gets_gpus_of_its_own(three_gpus, monkeypatch):
    assert submit(sees, "", gpus_per_rank=1).result() == ("0", "true")
    assert submit(sees, "", gpus_per_rank=3).result() == ("0,1,2", "true")
    assert submit(sees, "").result() == ("-1", None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-5,7")
    assert submit(sees, "", gpus_per_rank=1, rerun=True).result() == ("GPU-5", "true")


@pytest.mark.ranks
def test_two_ranks_get_one_gpu_each(three_gpus):
    job = submit(sees, "", gpus_per_rank=1, ranks_per_node=2)
    assert job.results() == [("0", "true"), ("1", "true")]


def test_jobs_at_the_same_time_get_different_gpus(three_gpus, tmp_path):
    go = tmp_path / "go"
    first = submit(sees, str(go), gpus_per_rank=2)
    until(lambda: first.status == "running" and (first.folder / "ready-0.json").exists())
    second = submit(sees, "", gpus_per_rank=1, name="second")
    assert second.result()[0] == "2"
    third = submit(sees, "", gpus_per_rank=2, name="third")
    assert third.result()[0] == "2,0"  # all others are taken, so one is shared
    go.touch()
    assert first.result()[0] == "0,1"


@pytest.mark.parametrize("visible", ["", "-1", "4", None])
def test_more_gpus_than_there_are_are_refused_with_the_way_out(three_gpus, monkeypatch, visible):
    monkeypatch.setenv("CLUSTER_MAX_RANKS", "4")
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(errors.BackendError, match=r"4 GPUs \(2 ranks with 2") as caught:
        submit(sees, "", gpus_per_rank=2, ranks_per_node=2)
    assert "fewer ranks" in caught.value.next_step
    assert ("share" in caught.value.next_step) == (visible in ("4", None))


def test_a_sweep_runs_as_many_items_at_a_time_as_have_gpus(three_gpus):
    options = {"ranks_per_node": 1, "cpus_per_rank": 1, "gpus_per_rank": 2}
    record = {"ranks": 1, "options": options, "env": [], "controller": "gloo"}
    assert backends.get("local").at_once(record, 8) == 1


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("jobs", "list"), ("lsit", "list"), ("squeue", "list"), ("kill", "cancel"), ("watchh", "watch"),
     ("results", "show"), ("train.py", "submit train.py"), ("help", "--help")],
)  # fmt: skip
def test_an_unknown_command_is_answered_with_the_one_that_was_meant(capsys, typed, meant):
    assert main([typed]) == 2
    assert meant in capsys.readouterr().err.splitlines()[0]


def test_without_a_controller_the_choice_is_local_and_said(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("CLUSTER_BACKEND")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "none.conf"))
    monkeypatch.setattr(client, "_answers", {})
    start = time.monotonic()
    job = submit(takes, 5)
    assert time.monotonic() - start < 30  # waiting for a Slurm would take a minute
    missing = "/none.conf" if shutil.which("sbatch") else "sbatch"
    assert job.backend == "local"
    assert re.search(rf"local backend \(.*{missing}", capsys.readouterr().out)
    with pytest.raises(errors.BackendError, match=missing):
        submit(takes, 6, backend="slurm")
    assert job.result() == 5


def test_the_environment_chooses_the_backend(monkeypatch):
    monkeypatch.setenv("CLUSTER_BACKEND", "cloud")
    with pytest.raises(errors.BackendError, match="CLUSTER_BACKEND='cloud'"):
        backends.choose("auto")


def test_a_killed_launcher_takes_its_ranks_with_it_and_is_lost(runs, tmp_path):
    job = submit(programs.sleeps, 60)
    while "asleep" not in job.logs(0):
        time.sleep(0.05)
    os.kill(json.loads((job.folder / "backend.json").read_text())["pid"], signal.SIGKILL)
    with pytest.raises(errors.Lost):
        job.result()
    assert job.status == "lost"


def test_the_job_outlives_the_process_that_submitted_it(runs, tmp_path):
    code = "import sys; from cluster.jobs import submit; from tests.jobs import sweeps;"
    code += "submit(sweeps.waits, 1, place=sys.argv[1])"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code, tmp_path], env=env, check=True, capture_output=True)
    (job,) = cluster.jobs(active=True)
    assert job.status == "running"
    (tmp_path / "go").touch()
    assert job.result() == 1


def test_keys_to_servers_do_not_reach_the_ranks(runs, monkeypatch):
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "secret")
    assert submit(os.getenv, "JUPYTERHUB_API_TOKEN").result() is None


def test_attach_says_what_is_there(runs):
    job = submit(takes, 1).wait()
    assert attach(job.id[:8]).id == job.id
    with pytest.raises(LookupError, match=f"No job 'nothing'.*\n.*{job.id}"):
        attach("nothing")
    submit(takes, 2).wait()
    with pytest.raises(errors.NoSuchJob, match="2 jobs"):
        attach("takes")


def test_a_folder_that_is_being_made_is_no_job_yet(runs):
    job = submit(takes, 1).wait()
    for name in (".new-abc", f".new-{job.key[:12]}"):
        (runs / name).mkdir()
        (runs / name / "run.json").write_text('{"for')
    assert [j.id for j in cluster.jobs()] == [job.id] and layout.find(runs, job.key) == job.folder
    with pytest.raises(errors.NoSuchJob):
        attach(".new")


def test_first_writer_of_an_end_wins_and_readers_see_all_or_nothing(tmp_path):
    assert write_json_once(tmp_path / "end.json", {"a": 1})
    assert not write_json_once(tmp_path / "end.json", {"a": 2})
    assert read_json(tmp_path / "end.json") == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["end.json"]
    (tmp_path / "link.json").symlink_to("end.json")
    with pytest.raises(OSError):
        read_json(tmp_path / "link.json")


def test_two_processes_that_submit_the_same_get_one_job(runs):
    files = {"run.json": "{}"}
    first, second = (layout.create(runs, "a", "k" * 64, files) for _ in range(2))
    assert first[0] == second[0] == runs / f"a-{'k' * 12}" and first[1] and second[1] is None
    assert [p.name for p in runs.iterdir()] == [first[0].name]
    assert Run(first[0]).is_held()
    first[1].close()
    assert not Run(first[0]).is_held()


RACE = """
import sys, time
from cluster.jobs import submit
from cluster.jobs.run import layout
from tests.jobs import programs
rename = layout.set_aside
layout.set_aside = lambda folder: (time.sleep(1), rename(folder))[1]  # so that both are at it together
time.sleep(max(0, float(sys.argv[1]) - time.time()))
submit(programs.sleeps, 60)
"""


def test_a_running_job_is_never_set_aside(runs):
    """If two processes find the same cancelled run at the same time, does one rerun it, and does the other
    attach to the new run?"""
    name = submit(programs.sleeps, 60).cancel().id
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", RACE, str(time.time() + 3)]
    both = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    output = sorted(p.communicate()[0].splitlines()[-1] for p in both)
    try:
        assert [j.id for j in cluster.jobs(active=True)] == [name]
        assert [j.id for j in cluster.jobs(active=False)] == [f"{name}.1"]
        assert name in output[0] and output[1].startswith(f"{name}: 1 rank")
    finally:
        for j in cluster.jobs(active=True):
            j.cancel()


@pytest.mark.parametrize("name", ["rank", "time"])
def test_outside_a_job_log_writes_nothing_and_keeps_its_own_names(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    log(step=1, steps=2)
    with pytest.raises(ValueError, match=rf"log\({name}="):
        log(**{"step": 1, name: 0.25})
    assert run_folder().resolve() == tmp_path and not list(tmp_path.iterdir())
    assert capsys.readouterr() == ("", "")


def logs_much(length):
    log(step=1, steps=2)
    log(step=2, steps=2, gradients=[0.5] * length)


@pytest.mark.parametrize("length", [0, 800, 2000, 20_000])
def test_long_lines_are_shown_like_short_ones(runs, length):
    """Is the progress of a job shown even if the last metrics line is longer than 4096 bytes (about 800
    numbers)?"""
    job = submit(logs_much, length).wait()
    assert "step 2 of 2" in job._repr_html_() and " 2 of 2 " in repr(cluster.jobs())


def test_the_last_line_is_a_whole_one(tmp_path):
    path = tmp_path / "metrics-0.jsonl"
    for text, line in [("", {}), ('{"a": 1', {}), ('{"a": 1}\n{"a": ' + "2" * 9000, {"a": 1})]:
        path.write_text(text)
        assert metrics.last(path) == line


def test_metrics_changed_afterwards_are_noticed(runs):
    job = submit(logs_much, 1).wait()
    assert len(job.metrics()) == 2
    with open(job.folder / "metrics-0.jsonl", "a") as f:
        f.write('{"rank": 0, "time": 1, "loss": 0.0}\n')
    with pytest.raises(errors.Damaged, match=r"metrics-0\.jsonl"):
        job.metrics()


def test_cards_and_tables_are_whole_and_escaped(runs):
    """Are a card and a table well-formed, without elements or links from a job's texts?"""
    job = submit(raises, "<script>alert(1)</script>", name="<b>&").wait()
    for page in (job._repr_html_(), cluster.jobs()._repr_html_()):
        tree = ElementTree.fromstring(f"<div>{page}</div>".replace("&rarr;", "→"))
        text = "".join(tree.itertext())
        assert "ValueError" in text and "<script>" in text and "failed" in text
        assert "script" not in {element.tag for element in tree.iter()}
        assert not {"src", "href", "onclick"} & {name for element in tree.iter() for name in element.attrib}


def test_the_command_line_does_it_all(runs, tmp_path, monkeypatch, capsys):
    def shell(*arguments, code=0):
        assert main(list(arguments)) == code
        output = capsys.readouterr()
        return output.out + output.err

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "work.py").write_text("def add(a, b=0):\n    print('adding')\n    return a + b\n")
    (tmp_path / "bad.py").write_text("raise SystemExit('gone wrong')\n")
    assert shell("submit", "--wait", "work:add", "1", "b=2").splitlines()[-2:] == ["adding", "3"]
    assert "gone wrong" in shell("submit", "--wait", "bad.py", "--x", code=1)
    assert shell("list").count("\n") == 4 and "add-" in shell("list", "--name", "add")
    assert "done" in shell("show", "add") and "RankFailed" in shell("status", "bad", code=1)
    assert shell("logs", "add") == "--- rank 0\nadding\n" and shell("logs", "add", "--follow") == "adding\n"
    assert shell("script", "add").startswith("#!/bin/bash")
    assert "#SBATCH --nodes=1" in shell("script", "add", "--backend", "slurm")
    assert "done" in shell("cancel", "add") and shell("wait", "add", "--timeout", "5") == ""
    assert "NoSuchJob: No job 'other'" in shell("show", "other", code=2)
    assert "OptionValueError: memory='2GG'" in shell("submit", "--memory", "2GG", "bad.py", code=2)
    assert "→" in shell("submit", "work:sub", code=2)
    help_text = subprocess.run([sys.executable, "-m", "cluster", "--help"], capture_output=True, text=True)
    assert help_text.returncode == 0 and "examples:" in help_text.stdout


def test_importing_is_quick_and_light():
    """Does `import cluster` take less than 0.3 s of CPU time (best of three), without importing TensorFlow,
    NumPy, pandas or Matplotlib?"""
    code = (
        "import sys, time; t = time.process_time();"
        "import cluster; from cluster import submit, jobs, attach, doctor;"
        "print(time.process_time() - t, {'tensorflow', 'numpy', 'pandas', 'matplotlib'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code]
    output = [subprocess.run(command, capture_output=True, text=True).stdout for _ in range(3)]
    assert min(float(s.split()[0]) for s in output) < 0.3 and all(s.split()[1] == "set()" for s in output)
    assert {"submit", "jobs", "attach", "doctor"} <= set(dir(cluster))


def test_the_items_of_a_sweep_share_one_copy_of_a_large_array(runs):
    """Do a sweep's items share one file with a large array, readable only by its user? Can each item change
    the array without affecting other items or a rerun?"""
    images, few = np.ones(3_000_000), np.ones(10)

    def count(scale):
        images[0] = scale
        return float(images.sum() + few.sum())

    sweep = cluster.map(count, [1.0, 2.0])
    assert sweep.results(progress=False) == [3_000_010.0, 3_000_011.0]
    (array,) = (sweep.folder / "shared").iterdir()
    assert array.stat().st_size == images.nbytes and array.stat().st_mode & 0o777 == 0o600
    assert sum(p.stat().st_size for p in sweep.folder.rglob("call.pkl")) < 100_000
    assert cluster.map(count, [1.0, 2.0], rerun=True).results(progress=False) == [3_000_010.0, 3_000_011.0]
    assert list((sweep.folder / "shared").iterdir()) == [array]


@pytest.mark.parametrize("damage", ["changed", "cut", "missing", "writable"])
def test_a_shared_array_that_is_not_as_it_was_is_refused(tmp_path, damage):
    """If the file of a shared array was changed, truncated, removed or made writable for others, does loading
    it fail with an error that names the file?"""
    array = np.arange(200_000)
    item = tmp_path / "sweep" / "round-1" / "0"
    item.mkdir(parents=True)
    data, arrays = pickling.dumps(array, apart=True)
    stored = program.described(arrays)
    shared.store(Run(tmp_path / "sweep"), stored, arrays)
    back = pickle.loads(data, buffers=shared.load(Run(item), stored))
    assert (back == array).all() and back.flags.writeable
    (path,) = (tmp_path / "sweep" / "shared").iterdir()
    if damage == "writable":
        path.chmod(0o666)
        with pytest.raises(errors.NotYours, match=str(path)):
            shared.load(Run(item), stored)
        return
    if damage == "missing":
        item = shutil.copytree(item, tmp_path / "0")
    else:
        path.write_bytes(b"x" + path.read_bytes()[1:] if damage == "changed" else path.read_bytes()[:-1])
    with pytest.raises(errors.Damaged, match="missing" if damage == "missing" else "changed") as caught:
        shared.load(Run(item), stored)
    assert path.name in str(caught.value) and "rerun=True" in caught.value.next_step


def test_a_large_variable_that_is_sent_with_a_job_is_named(runs, capsys):
    """Does submitting a large variable print its name, its size and a solution, once per sweep? Is nothing
    printed for a small one?"""
    images, labels = np.ones(12_000_000, np.uint8), np.ones(10)

    def count(scale):
        return float(images[0] + labels[0]) * scale

    sweep = cluster.map(count, [1, 2])
    printed = capsys.readouterr().out
    assert printed.count("`images` (12 MB)") == 1
    assert "np.load(path)" in printed and "labels" not in printed
    assert sweep.results(progress=False) == [2.0, 4.0]
    cluster.map(count, [1, 2])
    assert "images" not in capsys.readouterr().out  # the run is recorded, so nothing is sent
    submit(lambda array: int(array[0]), images).wait(progress=False)
    assert "`array` (12 MB)" in capsys.readouterr().out
