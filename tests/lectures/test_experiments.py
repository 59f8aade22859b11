"""`make experiments` runs each script and writes its record, names the experiments that it cannot run, and
reports failures.
"""

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


def test_what_needs_more_than_this_machine_is_left_out(scripts, monkeypatch, capfd):
    """If a module that an experiment needs is missing, is the experiment skipped with the reason when all are
    requested? Is it an error to request it by number?
    """
    monkeypatch.setattr(experiments, "NEEDS", {"02": "no_such_module"})
    folder = scripts(_02_a="pathlib.Path(out).write_text('2')", _04_b="pathlib.Path(out).write_text('4')")
    call(monkeypatch)
    assert "02_a: not made here, it needs no_such_module" in capfd.readouterr().out
    assert [p.name for p in folder.glob("*.json")] == ["04_b.json"]
    with pytest.raises(SystemExit, match="Not made: 02_a"):
        call(monkeypatch, "02")


def test_a_tour_of_slurm_is_left_out_where_none_can_be_started(scripts, monkeypatch, capfd):
    """If no Slurm can be started, is the tour of Slurm skipped with the reason, and are the other experiments
    run?"""
    monkeypatch.setattr(experiments, "SLURM", {"02_a"})
    monkeypatch.setattr(experiments.machine, "missing", lambda: "not installed: slurm-wlm")
    folder = scripts(_02_a="sys.exit(3)", _04_b="pathlib.Path(out).write_text('4')")
    call(monkeypatch)
    assert "02_a: not made here, it needs a Slurm that it can start: not installed" in capfd.readouterr().out
    assert [p.name for p in folder.glob("*.json")] == ["04_b.json"]


def test_networks_are_left_out_where_none_can_be_made(scripts, monkeypatch, capfd):
    """If the user is not root, or `tc` is missing, are the experiments that create networks skipped with the
    reason, and are the others run?
    """
    monkeypatch.setattr(experiments, "NETWORKS", {"02_a"})
    folder = scripts(_02_a="sys.exit(3)", _04_b="pathlib.Path(out).write_text('4')")
    monkeypatch.setattr(experiments.os, "geteuid", lambda: 1000)
    call(monkeypatch)
    assert "02_a: not made here, it needs root to create networks" in capfd.readouterr().out
    monkeypatch.setattr(experiments.os, "geteuid", lambda: 0)
    monkeypatch.setattr(experiments.shutil, "which", lambda command: None if command == "tc" else "/bin/it")
    call(monkeypatch)
    assert "02_a: not made here, it needs tc to create networks" in capfd.readouterr().out
    assert [p.name for p in folder.glob("*.json")] == ["04_b.json"]


def test_an_unknown_number_lists_those_that_are_there():
    done = subprocess.run(
        [sys.executable, "lectures/experiments.py", "99"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1 and "no experiment '99'" in done.stderr and "03" in done.stderr


def test_the_course_names_what_it_cannot_make():
    """Does only lecture 01's GPU experiment need more than the course's environment?"""
    assert set(experiments.NEEDS) == {"01"}
    assert {"01", "03", "08"} <= {script.stem[:2] for script in experiments.RUNS.glob("[0-9][0-9]_*.py")}
