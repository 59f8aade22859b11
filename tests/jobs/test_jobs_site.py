"""Does a site file give each job what the site wants, and does an argument of `submit` replace it?

The golden texts follow the published documentation of four sites. None of them was run there.
"""

import pytest

from cluster.__main__ import main
from cluster.jobs.backends import batch_script
from cluster.jobs.errors import OptionValueError
from cluster.jobs.options import check_options
from cluster.jobs.submission import plan
from cluster.slurm import client, site

from .texts import GOLDEN, run

# name: (documentation, site file)
SITES = {
    "nersc": (
        "https://docs.nersc.gov/jobs/policy/",
        'gpus = "gpus-per-task"\nmemory = "none"\n'
        '[sbatch]\naccount = "m1234"\nconstraint = "gpu"\nqos = "regular"\n',
    ),
    "cscs": (
        "https://docs.cscs.ch/running/slurm/",
        'memory = "none"\nlauncher = "srun --uenv=course/1.0 --kill-on-bad-exit=1"\n'
        '[sbatch]\naccount = "g123"\n',
    ),
    "surf": (
        "https://servicedesk.surf.nl/wiki/spaces/WIKI/pages/30660209/Snellius+partitions",
        'gpus = "gpus-per-node"\nmemory = "none"\nbefore = ["module purge", "module load 2024"]\n'
        '[sbatch]\npartition = "gpu_a100"\n',
    ),
    "jean_zay": (
        "http://www.idris.fr/en/docs/jean-zay/slurm/slurm_partitions_gpu",
        'gpus = "gres"\nmemory = "none"\nbefore = ["module purge"]\n'
        '[sbatch]\naccount = "abc@v100"\nconstraint = "v100-16g"\nhint = "nomultithread"\n',
    ),
}


@pytest.fixture
def given(tmp_path, monkeypatch):
    """Writes the text of a site file, the only one there is."""
    for name in site.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def write(text):
        (tmp_path / "site.toml").write_text(text)
        monkeypatch.setenv("CLUSTER_SITE", str(tmp_path / "site.toml"))
        monkeypatch.setattr(site, "places", lambda env=None: [tmp_path / "site.toml", tmp_path / "own.toml"])

    return write


def header(**options):
    """The lines of #SBATCH for a function that is submitted with these options."""
    return (
        batch_script.header(plan(print, (), options).run_json("slurm")).replace("#SBATCH --", "").split("\n")
    )


@pytest.mark.parametrize("name", SITES)
def test_the_script_of_a_published_site_is_the_golden_one(name, given):
    """Look at a difference before you copy it into the golden file: it is what the site documents."""
    documented, text = SITES[name]
    given(text)
    asked = run(nodes=2, ranks=8, ranks_per_node=4, cpus_per_rank=8, gpus_per_rank=1)
    wishes = site.load().record()
    wishes["origin"] = dict.fromkeys(wishes["origin"], "site.toml")
    text = batch_script.script(
        asked | {"site": wishes}, GOLDEN / "train-0123456789ab", python="/opt/env/python"
    )
    text = f"# {documented}\n" + text.replace(str(GOLDEN), "/runs")
    assert text == (GOLDEN / f"site_{name}.sh").read_text()


@pytest.mark.parametrize(
    ("options", "there", "absent"),
    [
        ({"sbatch": {"mem-per-cpu": "2G"}}, "mem-per-cpu=2G", "mem="),
        ({"sbatch": {"mem": "3G"}}, "mem=3G", "mem=2048M"),
        ({"memory": None}, "nodes=1", "mem"),
        ({"gpus_per_rank": 1, "sbatch": {"gres": "gpu:a100:1"}}, "gres=gpu:a100:1", "gpus-per-task"),
        ({"gpus_per_rank": 1, "sbatch": {"gres": "scratch:1"}}, "gpus-per-task=1", "nothing"),
        ({"sbatch": {"account": False}}, "nodes=1", "account"),
        ({"partition": "long"}, "partition=long", "partition=short"),
        ({"sbatch": {"qos": "high"}}, "qos=high", "qos=low"),
    ],
)  # fmt: skip
def test_what_is_given_replaces_the_default_of_its_kind(given, options, there, absent):
    """Does an argument of submit stand in place of what asks for the same thing?"""
    given('[sbatch]\naccount = "course"\npartition = "short"\nqos = "low"\n')
    lines = header(**options)
    assert there in lines and not any(line.startswith(absent) for line in lines)


def test_variables_of_sbatch_go_above_the_files(given, monkeypatch):
    """Does SBATCH_ACCOUNT reach the job, above the site's file and below an argument?"""
    given('memory = "mem-per-cpu"\n[sbatch]\naccount = "course"\n')
    monkeypatch.setenv("SBATCH_ACCOUNT", "mine")
    assert "account=mine" in header(cpus_per_rank=2) and "mem-per-cpu=1024M" in header(cpus_per_rank=2)
    assert "account=other" in header(sbatch={"account": "other"})


def test_a_users_own_file_goes_above_the_sites(given, tmp_path):
    """Is the later file the one that counts, option by option?"""
    given('launcher = "mpiexec"\n[sbatch]\naccount = "course"\nqos = "low"\n')
    (tmp_path / "own.toml").write_text('[sbatch]\naccount = "mine"\n')
    found = site.load()
    assert found.sbatch == {"account": "mine", "qos": "low"} and found.values == {"launcher": "mpiexec"}
    assert found.origin["account"].endswith("own.toml") and found.origin["qos"].endswith("site.toml")


def test_a_limit_of_the_site_is_named(given):
    """Is a request above it refused before Slurm is asked?"""
    given('[limits]\ntime = "00:30:00"\nranks = 4\n')
    with pytest.raises(OptionValueError, match="allows 00:30:00 for one job, not 01:00:00"):
        plan(print, (), {"time": "01:00:00"}).run_json("slurm")
    with pytest.raises(OptionValueError, match="ranks: this site allows 4"):
        plan(print, (), {"ranks_per_node": 8}).run_json("slurm")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("memory = 3", "one of 'mem', 'mem-per-cpu', 'none'"),
        ("colour = 'red'", "Use one of memory"),
        ("before = 'module load'", "list of lines"),
        ("[sbatch]\nAccount = 'x'", "without dashes"),
        ('[sbatch]\naccount = "a\\nb"', "on one line"),
        ("[limits]\ntime = 5.5", "hours:minutes:seconds"),
        ("not toml", "cannot be read"),
    ],
)
def test_a_fault_in_a_site_file_is_explained(given, text, words):
    """Does the error name the file, the value and what it must be?"""
    given(text)
    with pytest.raises(site.SiteError) as caught:
        site.load()
    assert words in str(caught.value) and "site.toml" in caught.value.what


def test_memory_can_be_left_to_the_site():
    """Is memory=None an option, and shown as such in the command of a run?"""
    assert check_options({"memory": None}).memory is None
    assert "memory=None" in plan(print, (), {"memory": None}).run_json("local")["command"]


def test_the_doctor_shows_where_each_line_comes_from(given, commands_of_slurm, capsys):
    """Does each line of the example's script name its file, and is Slurm's refusal printed?"""
    given('before = ["module load cuda"]\nmemory = "none"\n[sbatch]\naccount = "course"\n')
    commands_of_slurm("sbatch", 'cat > /dev/null; echo "invalid account" >&2; exit 1')
    assert main(["doctor", "--site"]) == 1
    text = capsys.readouterr().out
    lines = {line.partition("  ←")[0].strip(): line for line in text.splitlines()}
    for line in ("#SBATCH --account=course", "module load cuda"):
        assert lines[line].endswith("site.toml")
    assert lines["#SBATCH --ntasks-per-node=2"].endswith("← submit")
    assert "refuses it: invalid account" in text and "--mem" not in text
    commands_of_slurm("sbatch", "cat > /dev/null; exit 0")
    assert main(["doctor", "--site"]) == 0 and "accepts it" in capsys.readouterr().out


@pytest.fixture
def commands_of_slurm(tmp_path, monkeypatch):
    """Writes a command of Slurm's that stands first on PATH; a controller answers."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setattr(client, "no_slurm", lambda remembered=True: None)

    def write(name, body):
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)

    return write
