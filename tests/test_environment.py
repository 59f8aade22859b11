"""Is every version pinned once, and do the two routes to the environment agree?"""

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

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL = [pin for pins in PROJECT["optional-dependencies"].values() for pin in pins]


def test_conda_has_the_same_pins():
    """Does environment.yml name exactly the dependencies of pyproject.toml?"""
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    (pip,) = [entry["pip"] for entry in conda if isinstance(entry, dict)]
    assert sorted(pip) == sorted(PROJECT["dependencies"])


def test_conda_python_is_allowed_by_pyproject():
    """Is conda's Python within requires-python?"""
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    (python,) = [entry for entry in conda if isinstance(entry, str) and entry.startswith("python=")]
    assert Requirement(f"python{PROJECT['requires-python']}").specifier.contains(python.split("=")[1] + ".0")


@pytest.mark.parametrize("pin", PROJECT["dependencies"])
def test_pins_are_needed(pin):
    """Does something import what is pinned, or does a comment above the pin say what it is for?"""
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    [above] = [before for before, line in itertools.pairwise(lines) if f'"{pin}"' in line]
    module = re.match(r"[\w]+", pin)[0]
    folders = (ROOT / "cluster", ROOT / "lectures", ROOT / "solutions")
    texts = (path.read_text() for folder in folders for path in folder.rglob("*.py"))
    imports = re.compile(rf"^\s*(import|from) {module}\b", re.M)
    assert above.lstrip().startswith("#") or any(imports.search(text) for text in texts), (
        f"nothing imports {module}"
    )


@pytest.mark.parametrize("pin", PROJECT["dependencies"] + OPTIONAL)
def test_pins_are_exact(pin):
    """Does every dependency name one version?"""
    assert re.fullmatch(r"==[\w.]+", str(Requirement(pin).specifier)), pin


def test_constraints_hold_every_pin():
    """Does constraints.txt, the resolved list, agree with every pin it resolves?"""
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    resolved = {}
    for line in lines:
        name, resolved_version = line.split("==")
        resolved[name.lower().replace("_", "-")] = resolved_version
    apart = PROJECT["optional-dependencies"]["compiled"] + PROJECT["optional-dependencies"]["gpu"]
    for pin in map(Requirement, [pin for pin in PROJECT["dependencies"] + OPTIONAL if pin not in apart]):
        if pin.marker and not pin.marker.evaluate({"platform_machine": "x86_64"}):
            continue
        assert f"=={resolved[pin.name.lower()]}" == str(pin.specifier), pin


def test_constraints_for_gpus_are_what_tensorflow_asks_for():
    """The TensorFlow for GPUs at the version of the one for CPUs, and the CUDA that it names itself?"""
    lines = [(ROOT / name).read_text().splitlines() for name in ("constraints-gpu.txt", "constraints.txt")]
    beside, usual = [{line for line in text if not line.startswith("#")} for text in lines]
    [pin] = map(Requirement, PROJECT["optional-dependencies"]["gpu"])
    assert (pin.name, pin.extras) == ("tensorflow", {"and-cuda"})
    assert f"tensorflow-cpu{pin.specifier}; platform_machine == 'x86_64'" in PROJECT["dependencies"]
    asked = map(Requirement, requires("tensorflow-cpu" if platform.machine() == "x86_64" else "tensorflow"))
    cuda = {f"{a.name}{a.specifier}" for a in asked if a.marker and 'extra == "and-cuda"' in str(a.marker)}
    assert len(cuda) == 12 and beside == cuda | {f"tensorflow{pin.specifier}"}
    assert not beside & usual


@pytest.mark.parametrize("pin", PROJECT["dependencies"] + PROJECT["optional-dependencies"]["compiled"])
def test_this_environment_has_the_pins(pin):
    """Is what runs here what was pinned?"""
    pin = Requirement(pin)
    if pin.marker and not pin.marker.evaluate():
        pytest.skip(f"for another machine: {pin.marker}")
    assert f"=={version(pin.name)}" == str(pin.specifier)


HEAVY = ("tensorflow", "keras", "horovod", "pandas", "matplotlib", "numpy")


@pytest.mark.parametrize("module", ["cluster", "cluster.jobs", "cluster.training"])
def test_import_is_light(module):
    """Does importing the package leave the heavy libraries alone?"""
    code = f"import sys, {module}; print(*(m for m in {HEAVY} if m in sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == [], f"import {module} also imports {out.stdout}"
