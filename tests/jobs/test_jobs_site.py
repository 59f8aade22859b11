"""A site file gives each job the site's settings, which arguments of `submit` override.

The golden scripts follow the documentation of four sites, which cluster/staff/SITE.md cites. They have not
been tried at these sites.
"""

import contextlib
import functools
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from cluster.__main__ import main
from cluster.jobs import errors, submit
from cluster.jobs.backends import batch_script, slurm
from cluster.jobs.errors import OptionValueError
from cluster.jobs.run import endings
from cluster.jobs.submission import plan
from cluster.slurm import client, site
from tests import fakes

from .texts import GOLDEN, run

PAGE = (Path(__file__).parents[2] / "cluster/staff/SITE.md").read_text()
SITES = dict(re.findall(r"```toml\n# (\w+)\n(.*?)```", PAGE, re.S))  # name: site file


@pytest.fixture
def given(tmp_path, monkeypatch):
    """A function that writes the site's file. The only other file that is read is own.toml, next to it."""
    for name in site.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def write(text):
        (tmp_path / "site.toml").write_text(text)
        monkeypatch.setenv("CLUSTER_SITE", str(tmp_path / "site.toml"))
        monkeypatch.setattr(site, "places", lambda env=None: [tmp_path / "site.toml", tmp_path / "own.toml"])

    return write


def header(**options):
    """Return the #SBATCH lines of a function submitted with these options."""
    return (
        batch_script.header(plan(print, (), options).run_json("slurm")).replace("#SBATCH --", "").split("\n")
    )


@pytest.mark.parametrize("name", ["cscs", "jean_zay", "nersc", "surf"])
def test_the_script_of_a_published_site_is_the_golden_one(name, given):
    """Does the batch script for a published site equal its golden file? The golden file follows the site's
    documentation, so review any difference before updating it."""
    given(SITES[name])
    asked = run(nodes=2, ranks=8, ranks_per_node=4, cpus_per_rank=8, gpus_per_rank=1)
    wishes = site.load().record()
    wishes["origin"] = dict.fromkeys(wishes["origin"], "site.toml")
    text = batch_script.script(
        asked | {"site": wishes}, GOLDEN / "train-0123456789ab", python="/opt/env/python"
    )
    assert text.replace(str(GOLDEN), "/runs") == (GOLDEN / f"site_{name}.sh").read_text()


def test_the_page_for_administrators_names_every_setting():
    """Does SITE.md mention each setting, limit, permitted value, environment variable and location of a site
    file?"""
    names = {*site.KEYS, *site.LIMITS, *site.VARIABLES, *sum(site.FORMS.values(), ())}
    assert [name for name in names if not re.search(rf'[`"[]{re.escape(name)}[]`"]', PAGE)] == []
    assert site.LAUNCHER in PAGE and str(site.places()[0]) in PAGE


@pytest.mark.parametrize(
    ("options", "there", "absent"),
    [
        ({"sbatch": {"mem-per-cpu": "2G"}}, "mem-per-cpu=2G", "mem="),
        ({"sbatch": {"mem": "3G"}}, "mem=3G", "mem-per-cpu"),
        ({"cpus_per_rank": 2}, "mem-per-cpu=1024M", "mem="),  # of the 2 GiB per rank
        ({"memory": None}, "nodes=1", "mem"),
        ({"gpus_per_rank": 1, "sbatch": {"gres": "gpu:a100:1"}}, "gres=gpu:a100:1", "gpus-per-task"),
        ({"gpus_per_rank": 1, "sbatch": {"gres": "scratch:1"}}, "gpus-per-task=1", "nothing"),
        ({"sbatch": {"account": False}}, "nodes=1", "account"),
        ({"partition": "long"}, "partition=long", "partition=short"),
        ({"sbatch": {"qos": "high"}}, "qos=high", "qos=low"),
        ({}, "qos=low", "qos=mine"),  # the variable is above the files
        ({}, "account=mine", "account=course"),  # the user's own file is above the site's
    ],
)
def test_what_is_given_replaces_the_default_of_its_kind(given, monkeypatch, tmp_path, options, there, absent):
    """Does an argument of `submit` replace the site's default for the same request? Before it come, one above
    the other, the site's file, the user's own file and the variables of sbatch."""
    given('memory = "mem-per-cpu"\n[sbatch]\naccount = "course"\npartition = "short"\nqos = "normal"\n')
    (tmp_path / "own.toml").write_text('[sbatch]\naccount = "mine"\nqos = "mine"\n')
    monkeypatch.setenv("SBATCH_QOS", "low")
    lines = header(**options)
    assert there in lines and not any(line.startswith(absent) for line in lines)
    origin = site.load().origin
    assert origin["partition"].endswith("site.toml") and origin["account"].endswith("own.toml")


def test_a_limit_of_the_site_is_named(given):
    """Is a request above a limit of the site refused before Slurm is queried?"""
    given('[limits]\ntime = "00:30:00"\nranks = 4\n')
    with pytest.raises(OptionValueError, match=r"00:30:00.*01:00:00"):
        plan(print, (), {"time": "01:00:00"}).run_json("slurm")
    with pytest.raises(OptionValueError, match=r"ranks.*4"):
        plan(print, (), dict(ranks_per_node=8)).run_json("slurm")


@pytest.mark.parametrize(
    ("text", "value", "form"),
    [
        ("memory = 3", "memory=3", "'mem-per-cpu'"),
        ("colour = 'red'", "'colour'", "memory"),
        ("before = 'module load'", "before='module load'", "list"),
        ("[sbatch]\nAccount = 'x'", "Account='x'", "without dashes"),
        ("[sbatch]\ntime = '1:00:00'", "'time'", "[limits]"),
        ('[sbatch]\naccount = "a\\nb"', r"account='a\nb'", "one line"),
        ("[limits]\ntime = 5.5", "time=5.5", "hours:minutes:seconds"),
        ("not toml", "line 1", "site.py"),
    ],
)
def test_a_fault_in_a_site_file_is_explained(given, text, value, form):
    """Does the error for an invalid site file name the file, the value and the expected form?"""
    given(text)
    with pytest.raises(site.SiteError) as caught:
        site.load()
    assert "site.toml" in caught.value.what and value in caught.value.what and form in caught.value.next_step


def test_a_launcher_and_the_lines_before_it_stand_in_the_script(given):
    """Does the batch script run the site's `before` lines, and then start the ranks with the site's launcher
    and the MPI type of the job's controller?"""
    before = "module cuda"
    given(f'launcher = "srun {{mpi}} --cpu-bind=cores"\nbefore = ["{before}"]\n')
    for controller, mpi in (("gloo", "none"), ("mpi", "pmix")):
        asked = plan(print, (), {"controller": controller}).run_json("slurm")
        lines = batch_script.script(asked, GOLDEN).splitlines()
        (launch,) = [line for line in lines if line.startswith("srun ")]
        assert launch.startswith(f"srun {mpi} --cpu-bind=cores ")
        assert lines.index(before) < lines.index(launch)


def test_a_fault_in_a_site_file_is_no_traceback(given, capsys):
    """Does the doctor name the file's fault? Does it, if the file is not there?"""
    for text in ("not toml", "memory = 3", "caf\xe9 ="):
        given(text)
        assert main(["doctor", "--site"]) == 2
        assert "site.toml" in capsys.readouterr().err


def test_a_refusal_names_every_request_of_the_site_with_its_origin(
    given, commands_of_slurm, monkeypatch, tmp_path
):
    monkeypatch.setenv("CLUSTER_RUNS", str(tmp_path / "runs"))
    asked = "account=a1 constraint=rome reservation=exam licenses=matlab:1"
    lines = "".join(f'{k} = "{v}"\n' for k, v in (a.split("=") for a in asked.split()))
    given(f"[sbatch]\n{lines}")
    monkeypatch.setenv("SBATCH_QOS", "high")
    commands_of_slurm(
        sbatch="echo 'sbatch: error: No.' >&2; exit 1",
        sinfo="echo 'short* (1:00:00, 4)'",
        scontrol="echo is UP",
    )
    with pytest.raises(errors.Refused) as caught:
        submit(print, backend="slurm")
    step = caught.value.next_step
    assert all(f"--{request} ({tmp_path / 'site.toml'})" in step for request in asked.split())
    assert "--qos=high ($SBATCH_QOS)" in step and "$SBATCH_ACCOUNT" in step and "short*" in step
    given("")
    monkeypatch.delenv("SBATCH_QOS")
    with pytest.raises(errors.Refused) as caught:
        submit(print, backend="slurm")
    assert (
        str(tmp_path / "own.toml") in caught.value.next_step and "$SBATCH_ACCOUNT" in caught.value.next_step
    )


@pytest.mark.parametrize(
    ("line", "for_cpus"),
    [
        ('mem-per-gpu = "16G"', False),
        ('gres = "gpu:a100:1"', False),
        ("gpus = 1", False),
        ('cpus-per-gpu = "8"', False),
        ('gpu-bind = "closest"', False),
        ('gres = "scratch:1"', True),
        ('mem-per-cpu = "2G"', True),
    ],
)
def test_a_job_without_gpus_requests_nothing_about_gpus(given, line, for_cpus):
    """Do a site's options about GPUs reach only jobs that request GPUs? Do a student's own reach all?"""
    given(f"[sbatch]\n{line}")
    name, _, value = line.replace('"', "").partition(" = ")
    assert (f"{name}={value}" in header()) == for_cpus
    assert "mem=2048M" in header() or name == "mem-per-cpu"
    assert f"{name}={value}" in header(gpus_per_rank=1)
    given("")
    assert f"{name}={value}" in header(sbatch={name: value})


def test_a_failing_line_of_the_site_is_named_and_the_job_continues(given, tmp_path):
    """Is a failing line named as the file has it, whether it is a command, a function or a missing file?"""
    module = "module() { true; return 3; }"
    failing = ["module load cuda/12.9", "source /nowhere/setup.sh", "false"]
    given(
        f'launcher = "echo"\nbefore = {json.dumps([module, failing[0], "true", *failing[1:], "[ -d / ]"])}\n'
    )
    record = plan(print, (), {"controller": "gloo"}).run_json("slurm")
    script = tmp_path / "job.sh"
    script.write_text(batch_script.script(record, tmp_path, python="/bin/true").replace("code=$?", "code=7"))
    done = subprocess.run(["bash", script], capture_output=True, text=True)
    assert done.returncode == 7
    named = [line for line in done.stderr.splitlines() if line.startswith(endings.SITE_FAILED)]
    assert [line.partition("): ")[2] for line in named] == failing
    records = [{"rank": 0, "exit_code": 1, "ended": 1.0}]
    end = endings.decide(record, records, {}, log=done.stderr)
    assert failing[0] in end["next_step"] and end["ending"] == "RankFailed"


def test_what_a_site_assigns_itself_is_not_checked_beforehand(given, commands_of_slurm):
    """Are memory and GPUs checked before submission only if the script requests them?"""
    commands_of_slurm(sinfo="echo 'short*|1:00:00|1-infinite|4|8|1000|(null)'")
    options = {"memory": "2G", "gpus_per_rank": 1}
    given("")
    with pytest.raises(errors.CanNeverRun, match="memory"):
        slurm.Slurm().check(plan(print, (), options).run_json("slurm"))
    given('memory = "none"\ngpus = "none"\n')
    slurm.Slurm().check(plan(print, (), options).run_json("slurm"))


def test_the_doctor_shows_where_each_line_comes_from(given, commands_of_slurm, capsys, monkeypatch):
    """Does the doctor show the origin of each line of its example scripts, and Slurm's complete answer to
    them?"""
    before = "module cuda"
    given(f'before = ["{before}"]\nmemory = "none"\ngpus = "gres"\n[sbatch]\naccount = "course"\n')
    monkeypatch.setenv("SBATCH_QOS", "high")
    monkeypatch.setenv("SBATCH_TIMELIMIT", "7")  # not shown, because jobs are submitted without it
    refuses = 'echo "sbatch: error: invalid account" >&2; echo "sbatch: see $SBATCH_TIMELIMIT." >&2; exit 1'
    commands_of_slurm(sbatch=f"cat > /dev/null; {refuses}")
    assert main(["doctor", "--site"]) == 1
    text = capsys.readouterr().out
    lines = {line.partition("  ←")[0].strip(): line for line in text.splitlines()}
    for line in ("#SBATCH --account=course", before, "#SBATCH --gres=gpu:2"):
        assert lines[line].endswith("site.toml")
    assert lines["#SBATCH --qos=high"].endswith("← $SBATCH_QOS")
    assert any(line.endswith("per_node") for line in lines.values())
    assert "error: invalid account see ." in text and "--mem" not in text
    commands_of_slurm(sbatch="cat > /dev/null; echo 'sbatch: Job 7 starts' >&2")
    assert main(["doctor", "--site"]) == 0
    assert capsys.readouterr().out.count("Job 7 starts") == 2


@pytest.mark.slurm
def test_the_doctor_tries_the_script_on_a_real_slurm(cluster, given, monkeypatch, capsys):
    """Does the doctor let Slurm validate its example scripts and report when they would start, without
    submitting a job? Is a wrong partition reported?"""
    cluster.enter(monkeypatch)
    given("")
    before = cluster.ask("squeue", "--me", "--noheader", "--format=%i").split()
    assert main(["doctor", "--site"]) == 0
    assert "to start" in capsys.readouterr().out
    given('[sbatch]\npartition = "nowhere"\n')
    assert main(["doctor", "--site"]) == 1
    text = capsys.readouterr().out
    assert "invalid partition" in text and "#SBATCH --partition=nowhere" in text
    after = cluster.ask("squeue", "--me", "--noheader", "--format=%i").split()
    assert set(after) <= set(before)  # a job of an earlier test may have ended meanwhile


@pytest.fixture
def commands_of_slurm(tmp_path, monkeypatch):
    """A function that creates fake Slurm commands at the front of PATH. Slurm counts as available."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setattr(client, "no_slurm", lambda remembered=True: None)
    return functools.partial(fakes.commands, tmp_path / "bin")


@pytest.mark.slurm
def test_the_commands_of_the_page_do_what_it_says(own, monkeypatch):
    """Does Slurm accept SITE.md's account, QOS, users and reservation, and refuse requests above the QOS's
    limit?

    The reservation begins at once and has all nodes. A job of its account starts without naming the
    reservation, and a job of another account stays pending. The account is named "class" here, because
    "course" already exists.
    """
    own.enter(monkeypatch)
    commands = [shlex.split(text) for text in re.findall(r"`((?:sacctmgr|scontrol) [^`]+)`", PAGE)]
    assert [c[:3][-1] for c in commands] == ["add", "add", "add", "reservation"]
    here = {"student1,student2": "root", "PartitionName=gpu": "PartitionName=short", "NodeCnt=4": "Nodes=ALL"}
    here |= {"StartTime=2027-01-12T14:00:00": "StartTime=now"}
    assert here.keys() <= {word for command in commands for word in command}
    job = ("sbatch", "--parsable", "--output=/dev/null", "--time=1", "--mem=100M", "--wrap=true")
    try:
        for command in commands:
            own.ask(*(here.get(word, word).replace("course", "class") for word in command))
        jobs = [
            own.ask(*job, *more).strip() for more in ([], ["--account=class"], ["--account=class", "--wait"])
        ]
        rows = own.ask("squeue", "-h", "-t", "all", "-o", "%i|%T").splitlines()
        states = dict(row.split("|") for row in rows)
        assert [states[n] for n in jobs] == ["PENDING", "COMPLETED", "COMPLETED"]
        with pytest.raises(subprocess.CalledProcessError) as caught:
            own.ask(*(word.replace("--time=1", "--time=02:00:00") for word in job), "--account=class")
        assert "QOSMaxWallDurationPerJobLimit" in caught.value.stderr
        own.ask("scancel", jobs[0])
    finally:
        for line in (
            "scontrol delete ReservationName=class",
            "sacctmgr -i delete user root account=class",
            "sacctmgr -i delete account class",
            "sacctmgr -i delete qos class",
        ):
            with contextlib.suppress(subprocess.CalledProcessError):
                own.ask(*line.split())
