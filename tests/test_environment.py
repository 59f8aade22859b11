"""The environment is the locked one, all ways to create it agree, and an import of the package is light."""

import subprocess
import sys
import tomllib
from importlib.metadata import version

import pytest
import yaml
from packaging.requirements import Requirement

from cluster.staff import pins

from . import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
GROUPS = PROJECT["optional-dependencies"]
LOCKED = pins.locked((ROOT / "constraints.txt").read_text())
CONDA = (ROOT / "environment.yml").read_text()


def test_ranges_are_locked_to_one_version():
    """Does each version range have a lower and an upper bound, and is the locked version within it, also for
    GPUs?
    """
    gpu = pins.locked((ROOT / "constraints-gpu.txt").read_text())
    for text in (*PROJECT["dependencies"], *(each for group in GROUPS.values() for each in group)):
        wanted = Requirement(text)
        assert {specifier.operator for specifier in wanted.specifier} == {">=", "<"}, text
        locked = gpu if text in GROUPS["gpu"] else LOCKED
        if wanted.marker is None or wanted.marker.evaluate({"platform_machine": "x86_64"}):
            assert wanted.specifier.contains(locked[pins.name_of(text)]), text
    assert gpu["tensorflow"] == LOCKED["tensorflow-cpu"] and not gpu.items() & LOCKED.items()


def test_conda_has_the_locked_versions():
    """Does environment.yml contain the project's dependencies at their locked versions, and a Python that the
    project supports?
    """
    python, *_, entry = yaml.safe_load(CONDA)["dependencies"]
    assert Requirement(f"python{PROJECT['requires-python']}").specifier.contains(python.split("=")[1] + ".0")
    assert sorted(map(pins.name_of, entry["pip"])) == sorted(map(pins.name_of, PROJECT["dependencies"]))
    assert pins.with_versions(CONDA, LOCKED) == CONDA
    assert "numpy==9.8.7" in pins.with_versions(CONDA, {**LOCKED, "numpy": "9.8.7"})


def test_this_environment_is_the_locked_one():
    """Does pip find every requirement of the installed packages fulfilled? Are the project's dependencies
    installed in their locked versions?
    """
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    for wanted in map(Requirement, PROJECT["dependencies"] + GROUPS["compiled"]):
        if wanted.marker is None or wanted.marker.evaluate():
            assert version(wanted.name) == LOCKED[pins.name_of(wanted.name)]


@pytest.mark.parametrize("module", ["cluster", "cluster.jobs", "cluster.training"])
def test_import_is_light(module):
    """Can the package be imported without importing TensorFlow, NumPy or other heavy libraries?"""
    heavy = ("tensorflow", "keras", "horovod", "pandas", "matplotlib", "numpy")
    code = f"import sys, {module}; print(*(m for m in {heavy} if m in sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == []
