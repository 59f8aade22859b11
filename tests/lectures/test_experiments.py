"""`make experiments` runs each script and writes its record, names the experiments that it cannot run, and
reports failures.
"""

import re
import subprocess
import sys

import pytest

from .. import ROOT
from ..modules import module_of

experiments = module_of("lectures/experiments.py")


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    """Return a function that creates a folder with these scripts. In each, `out` is the path of the record to
    write.
    """

    def write(**bodies):
        for name, body in bodies.items():
            (tmp_path / f"{name[1:]}.py").write_text(f"import pathlib, sys\nout = sys.argv[2]\n{body}\n")
        monkeypatch.setattr(experiments, "RUNS", tmp_path)
        return tmp_path

    return write


def call(monkeypatch, *numbers):
    monkeypatch.setattr(sys, "argv", ["experiments.py", *numbers])
    experiments.main()


def test_each_script_writes_its_record(scripts, monkeypatch, capfd):
    folder = scripts(_02_a="pathlib.Path(out).write_text('2')", _04_b="pathlib.Path(out).write_text('4')")
    call(monkeypatch)
    assert {p.name: p.read_text() for p in folder.glob("*.json")} == {"02_a.json": "2", "04_b.json": "4"}
    output = capfd.readouterr().out
    assert "0 of 2  02_a" in output and "1 of 2  04_b" in output and output.rstrip().endswith("2 of 2")


def test_one_is_chosen(scripts, monkeypatch):
    folder = scripts(_02_a="pathlib.Path(out).write_text('2')", _04_b="pathlib.Path(out).write_text('4')")
    call(monkeypatch, "04")
    assert [p.name for p in folder.glob("*.json")] == ["04_b.json"]


def test_a_failure_is_named_and_the_others_are_made(scripts, monkeypatch):
    folder = scripts(_02_a="sys.exit(3)", _04_b="pathlib.Path(out).write_text('4')")
    with pytest.raises(SystemExit, match="Failed: 02_a"):
        call(monkeypatch)
    assert (folder / "04_b.json").exists()


def module(monkeypatch):
    monkeypatch.setattr(experiments, "NEEDS", {"02": "no_such_module"})


def slurm(monkeypatch):
    monkeypatch.setattr(experiments, "SLURM", {"02_a"})
    monkeypatch.setattr(experiments.machine, "missing", lambda: "slurm-wlm")


def root(monkeypatch):
    monkeypatch.setattr(experiments, "NETWORKS", {"02_a"})
    monkeypatch.setattr(experiments.os, "geteuid", lambda: 1000)


def tc(monkeypatch):
    monkeypatch.setattr(experiments, "NETWORKS", {"02_a"})
    monkeypatch.setattr(experiments.os, "geteuid", lambda: 0)
    monkeypatch.setattr(experiments.shutil, "which", lambda command: None if command == "tc" else "/bin/it")


@pytest.mark.parametrize("lack", [module, slurm, root, tc], ids=lambda lack: lack.__name__)
def test_what_needs_more_than_this_machine_is_left_out(scripts, monkeypatch, capfd, lack):
    """If a module, Slurm or a right that an experiment needs is missing, is the experiment skipped with the
    reason, and are the others run? Is it an error to request it by number?
    """
    lack(monkeypatch)
    folder = scripts(_02_a="sys.exit(3)", _04_b="pathlib.Path(out).write_text('4')")
    call(monkeypatch)
    assert re.search(rf"02_a: .*{lack.__name__}", capfd.readouterr().out)
    assert [p.name for p in folder.glob("*.json")] == ["04_b.json"]
    with pytest.raises(SystemExit, match="02_a"):
        call(monkeypatch, "02")


def test_an_unknown_number_lists_those_that_are_there():
    done = subprocess.run(
        [sys.executable, "lectures/experiments.py", "99"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1 and "no experiment '99'" in done.stderr and "03" in done.stderr


def test_the_course_names_what_it_cannot_make():
    """Does only lecture 01's GPU experiment need more than the course's environment?"""
    assert set(experiments.NEEDS) == {"01"}
    assert {"01", "03", "08"} <= {script.stem[:2] for script in experiments.RUNS.glob("[0-9][0-9]_*.py")}
