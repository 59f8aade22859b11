"""Each dependency is needed, its version range is locked to one version, and all ways to create the
environment agree.
"""

import itertools
import platform
import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from cluster.staff import pins

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL = [pin for group in PROJECT["optional-dependencies"].values() for pin in group]

LOCKED = pins.locked((ROOT / "constraints.txt").read_text())


def test_conda_has_the_locked_versions():
    """Does environment.yml contain exactly the dependencies of pyproject.toml, at the versions of
    constraints.txt?
    """
    text = (ROOT / "environment.yml").read_text()
    (pip,) = [entry["pip"] for entry in yaml.safe_load(text)["dependencies"] if isinstance(entry, dict)]
    assert sorted(map(pins.name_of, pip)) == sorted(map(pins.name_of, PROJECT["dependencies"]))
    assert pins.with_versions(text, LOCKED) == text
    assert "numpy==9.8.7" in pins.with_versions(text, {**LOCKED, "numpy": "9.8.7"})


def test_conda_python_is_allowed_by_pyproject():
    """Does requires-python permit conda's Python?"""
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    (python,) = [entry for entry in conda if isinstance(entry, str) and entry.startswith("python=")]
    assert Requirement(f"python{PROJECT['requires-python']}").specifier.contains(python.split("=")[1] + ".0")


@pytest.mark.parametrize("pin", PROJECT["dependencies"])
def test_pins_are_needed(pin):
    """Is each pinned package imported, or explained in a comment above the pin?"""
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    [above] = [before for before, line in itertools.pairwise(lines) if f'"{pin}"' in line]
    module = re.match(r"[\w]+", pin)[0]
    folders = (ROOT / "cluster", ROOT / "lectures", ROOT / "solutions")
    texts = (path.read_text() for folder in folders for path in folder.rglob("*.py"))
    imports = re.compile(rf"^\s*(import|from) {module}\b", re.M)
    assert above.lstrip().startswith("#") or any(imports.search(text) for text in texts), (
        f"nothing imports {module}"
    )


@pytest.mark.parametrize("text", PROJECT["dependencies"] + OPTIONAL)
def test_ranges_are_locked_to_one_version(text):
    """Does each version range have a lower and an upper bound, and does constraints.txt lock a version within
    it?
    """
    wanted = Requirement(text)
    assert re.search(r">=[\d.]+", str(wanted.specifier)) and re.search(r"<[\d.]+", str(wanted.specifier))
    name = "tensorflow-cpu" if wanted.name == "tensorflow" else pins.name_of(text)
    assert wanted.specifier.contains(LOCKED[name]), (text, LOCKED[name])


def test_constraints_for_gpus_are_what_tensorflow_asks_for():
    """Do the constraints for GPUs pin TensorFlow at the same version as for CPUs, and the CUDA versions that
    it requires?"""
    lines = [(ROOT / name).read_text().splitlines() for name in ("constraints-gpu.txt", "constraints.txt")]
    beside, usual = [{line for line in text if not line.startswith("#")} for text in lines]
    [pin] = map(Requirement, PROJECT["optional-dependencies"]["gpu"])
    assert (pin.name, pin.extras) == ("tensorflow", {"and-cuda"})
    [usual_pin] = [
        each for each in map(Requirement, PROJECT["dependencies"]) if each.name == "tensorflow-cpu"
    ]
    assert usual_pin.specifier == pin.specifier
    needs = map(Requirement, requires("tensorflow-cpu" if platform.machine() == "x86_64" else "tensorflow"))
    cuda = {f"{a.name}{a.specifier}" for a in needs if a.marker and 'extra == "and-cuda"' in str(a.marker)}
    assert len(cuda) == 12 and beside == cuda | {f"tensorflow=={LOCKED['tensorflow-cpu']}"}
    assert not beside & usual


@pytest.mark.parametrize("text", PROJECT["dependencies"] + PROJECT["optional-dependencies"]["compiled"])
def test_this_environment_has_the_locked_versions(text):
    """Is the installed version of each dependency the locked one?"""
    wanted = Requirement(text)
    if wanted.marker and not wanted.marker.evaluate():
        pytest.skip(f"for another machine: {wanted.marker}")
    assert version(wanted.name) == LOCKED[pins.name_of(text)]


HEAVY = ("tensorflow", "keras", "horovod", "pandas", "matplotlib", "numpy")


@pytest.mark.parametrize("module", ["cluster", "cluster.jobs", "cluster.training"])
def test_import_is_light(module):
    """Can the package be imported without importing TensorFlow, NumPy or other heavy libraries?"""
    code = f"import sys, {module}; print(*(m for m in {HEAVY} if m in sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == [], f"import {module} also imports {out.stdout}"
