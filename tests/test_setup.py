"""The set-up script reports what is wrong, and resumes where it stopped."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from . import ROOT, ports


def setup(venv, root=ROOT, **env):
    """Run the set-up script in the clone `root` for the environment folder `venv`, with a minimal PATH."""
    env = {"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"], "VENV": str(venv), "PWD": str(root), **env}
    return subprocess.run(["cluster/setup.sh"], cwd=root, env=env, capture_output=True, text=True)


def failed(done):
    """Return the name of the step that failed, or None."""
    match = re.search(r"Failed: (.*)\. The end", done.stderr)
    return match and match[1]


@pytest.fixture
def broken_python(tmp_path):
    """Return a Python that passes the first check but cannot create a virtual environment."""
    python = tmp_path / "python"
    python.write_text(f"""#!/bin/sh
[ "$1" = -c ] && exec {sys.executable} "$@"
echo "no room left for the environment"; exit 7
""")
    python.chmod(0o755)
    return python


def test_no_usable_python(tmp_path):
    """If the chosen Python is unsuitable, does the message name it, the required version and how to select
    another one?
    """
    done = setup(tmp_path / "venv", PYTHON="/bin/false")
    assert done.returncode == 1
    assert all(word in done.stderr for word in ("/bin/false", "PYTHON=", "3.11"))


def test_a_python_that_is_too_new_is_named_with_a_way_out(clone, tmp_path):
    new = tmp_path / "python3"
    new.write_text(f"""#!/bin/sh
exec {sys.executable} -c 'import sys
sys.version_info = (3, 13, 5)
exec(sys.argv[2])' "$@"
""")
    new.chmod(0o755)
    done = setup(".venv", clone("mine"), PYTHON=str(new))
    assert done.returncode == 1
    assert all(word in done.stderr for word in ("Python 3.13", "uv python install", "environment.yml"))


@pytest.mark.parametrize("way", ["absolute", "relative", "by a link"])
def test_an_environment_is_not_changed_under_its_processes(clone, tmp_path, broken_python, way):
    """If packages must be changed, is a process of the environment named, and nothing changed? Does the
    set-up go on once the process has ended?"""
    checkout = clone("mine")
    environment(checkout / ".venv", checkout, checkout / ".venv", True)
    worker = checkout / ".venv/bin/worker"
    shutil.copy("/bin/sleep", worker)
    (tmp_path / "link").symlink_to(checkout)
    names = {
        "absolute": worker,
        "relative": ".venv/bin/worker",
        "by a link": tmp_path / "link/.venv/bin/worker",
    }
    process = subprocess.Popen([names[way], "600"], cwd=checkout)
    try:
        done = setup(".venv", checkout, PYTHON=str(broken_python))
        assert done.returncode == 1 and f" {process.pid} " in done.stderr and failed(done) is None
        assert kept(checkout / ".venv") and "Building" not in done.stdout
    finally:
        process.kill()
        process.wait()
    assert failed(setup(".venv", checkout, PYTHON=str(broken_python)))


def test_a_failed_step_is_named_with_its_log_and_tried_again(clone, broken_python):
    """If a step fails, does the set-up stop and print the step's name and the end of its log? Does a second
    run repeat the step?
    """
    checkout = clone("mine")
    for _ in range(2):
        done = setup(".venv", checkout, PYTHON=str(broken_python))
        assert done.returncode == 1
        assert failed(done) == "virtual environment" and "no room" in done.stderr
        assert "Horovod" not in done.stdout, "went on after a failed step"
    assert (checkout / ".venv/made-by-setup").read_text() == f"{checkout}\n{checkout}/.venv\n"


@pytest.mark.parametrize("grades", [True, False])
def test_the_set_up_installs_bubblewrap_for_instructors(tmp_path, clone, grades):
    """On a Debian without the required packages, is bubblewrap installed for instructors but not for
    students?
    """
    checkout, tools = clone("mine"), tmp_path / "tools"
    if grades:
        (checkout / "cluster" / "staff").mkdir(exist_ok=True)
    else:
        shutil.rmtree(checkout / "cluster" / "staff", ignore_errors=True)
    tools.mkdir()
    for name, text in {"dpkg-query": "exit 1", "apt-get": 'echo "$@" >>asked', "id": "echo 0"}.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    setup(".venv", checkout, PYTHON="/bin/false", PATH=f"{tools}:/usr/bin:/bin")
    [packages] = [line for line in (checkout / "asked").read_text().splitlines() if " install " in line]
    assert "python3-venv" in packages and ("bubblewrap" in packages) == grades


def test_the_python_of_a_half_made_environment_is_not_taken(tmp_path, broken_python):
    """Does the set-up avoid the interpreter of an incomplete environment, which it is about to remove? (make
    puts the environment on PATH.)"""
    half = tmp_path / "half" / "bin"
    half.mkdir(parents=True)
    (half.parent / "made-by-setup").touch()
    (half / "python3.11").symlink_to(sys.executable)
    named = tmp_path / "named"
    named.mkdir()
    (named / "python3.11").symlink_to(broken_python)
    done = setup(half.parent, PATH=f"{half}:{named}:/usr/bin:/bin")
    assert "no room" in done.stderr, done.stdout + done.stderr


@pytest.fixture
def clone(tmp_path):
    """Return a function that copies the files that the set-up reads into a new folder of a given name."""

    def make(name):
        for file in (
            "cluster/setup.sh",
            "cluster/pages/switched_on.json",
            "pyproject.toml",
            "constraints.txt",
        ):
            (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, tmp_path / name / file)
        return tmp_path / name

    return make


def environment(folder, maker, named, recorded):
    """Create in `folder` an environment as left by a finished set-up of the clone `maker`.

    named: the environment's path during that set-up. recorded: whether the set-up recorded its clone, which
    older versions did not.
    """
    for name in ("bin", "lib", "steps"):
        (folder / name).mkdir(parents=True)
    (folder / "lib" / "precious.txt").write_text("kept")
    (folder / "bin" / "python").write_text("#!/bin/sh\necho no network; exit 1\n")
    (folder / "bin" / "python").chmod(0o755)
    (folder / "pyvenv.cfg").write_text(f"home = /usr/bin\ncommand = /usr/bin/python3 -m venv {named}\n")
    digest = hashlib.sha256(str(maker).encode() + b"\n").hexdigest()
    (folder / "steps" / f"venv@{digest[:12]}").touch()
    (folder / "made-by-setup").write_text(f"{maker}\n{named}\n" if recorded else "")


def kept(folder):
    return (folder / "lib" / "precious.txt").exists() and (folder / "bin" / "python").exists()


older = pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "by an older set-up"])


@older
@pytest.mark.parametrize("way", ["linked here", "linked there", "shared", "shared, its clone gone"])
def test_the_environment_of_another_clone_is_refused(clone, tmp_path, broken_python, recorded, way):
    """If another clone made the environment and can reach it by a link, or if it is outside
    this clone, is it left unchanged, and does the message name the clone and a way out?
    """
    other, checkout = tmp_path / "other", clone("mine")
    if "gone" not in way:
        clone("other")
    there = {"linked here": other / ".venv", "linked there": checkout / ".venv"}.get(way, tmp_path / "shared")
    environment(there, other, other / ".venv" if "linked" in way else there, recorded)
    if way == "linked here":
        (checkout / ".venv").symlink_to(there)
    elif way == "linked there":
        (other / ".venv").symlink_to(there)
    done = setup(there if "shared" in way else ".venv", checkout, PYTHON=str(broken_python))
    assert done.returncode == 1 and kept(there)
    assert ("rm '.venv'" if way == "linked here" else "VENV=") in done.stderr
    assert str(other) in done.stderr or not recorded


@older
@pytest.mark.parametrize("how", ["moved", "copied"])
def test_a_moved_clone_recreates_its_environment(clone, tmp_path, broken_python, recorded, how):
    """If a clone was moved or copied, is its environment recreated, because the programs in it name the old
    folder?"""
    old = clone("old")
    environment(old / ".venv", old, old / ".venv", recorded)
    new = tmp_path / "new"
    shutil.move(old, new) if how == "moved" else shutil.copytree(old, new)
    done = setup(".venv", new, PYTHON=str(broken_python))
    assert f"{old}/.venv" in done.stdout
    assert failed(done) == "virtual environment" and not kept(new / ".venv")
    assert how == "moved" or kept(old / ".venv")


@older
def test_a_clone_under_another_name_keeps_its_environment(clone, tmp_path, broken_python, recorded):
    """If an environment was created through a link to the clone, do later set-ups keep it, both through the
    link and in the clone's real folder?
    """
    checkout, link = clone("mine"), tmp_path / "link"
    link.symlink_to(checkout)
    environment(checkout / ".venv", link, link / ".venv", recorded)
    for root in (checkout, link):
        done = setup(".venv", root, PYTHON=str(broken_python))
        assert "no network" in done.stderr and kept(checkout / ".venv"), done.stdout + done.stderr


def test_foreign_environment_is_only_added_to(tmp_path):
    """Is an environment that the script did not create, such as conda's, left unchanged by two set-ups that
    fail?
    """
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "precious.txt").write_text("kept")
    python = tmp_path / "bin" / "python"
    python.write_text("#!/bin/sh\necho no network; exit 1\n")
    python.chmod(0o755)
    for _ in range(2):
        done = setup(tmp_path)
        assert done.returncode == 1 and "no network" in done.stderr
        assert (tmp_path / "lib" / "precious.txt").read_text() == "kept" and python.exists()


def nvcc(folder, release):
    """Create a fake CUDA installation of this release that consists only of nvcc, and return its folder."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "nvcc"
    program.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V{release}.131'\n")
    program.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("gpu", "value"), [("yes", "GPU=yes"), ("1", "VENV="), ("1", "constraints-gpu.txt")], ids=str
)
def test_an_environment_for_gpus_that_cannot_be_made_is_refused(clone, broken_python, gpu, value):
    """Is an invalid value, an environment with TensorFlow for CPUs, or a folder without the pins for
    GPUs refused with what is wrong, before anything is created?
    """
    checkout = clone("mine")
    there = checkout / ".venv/lib/python3.11/site-packages/tensorflow_cpu-2.18.1.dist-info"
    if value == "VENV=":
        there.mkdir(parents=True)
    done = setup(".venv", checkout, GPU=gpu, PYTHON=str(broken_python))
    assert done.returncode == 1 and value in done.stderr
    assert there.exists() == (value == "VENV=") and not (checkout / ".venv/for-gpus").exists()


@pytest.mark.parametrize(
    ("release", "message"),
    [
        ("11.8", "CUDA 11.8"),
        ("13.5", "CUDA 13.5"),
        (None, "nvcc"),
        ("12.4", None),
    ],
)
def test_the_cuda_that_compiles_horovod_is_looked_for_first(tmp_path, broken_python, release, message):
    """Is a missing nvcc, or one of an unsuitable CUDA version, reported before the first step, with what to
    do?
    """
    if release is None and Path("/usr/local/cuda/bin/nvcc").exists():
        pytest.skip("this machine has a CUDA")
    env = {"CUDA_HOME": nvcc(tmp_path / "cuda", release)} if release else {}
    for more in ({"GPU": "1"}, {}):  # the environment remembers GPU=1
        done = setup(tmp_path / "venv", PYTHON=str(broken_python), **more, **env)
        assert done.returncode == 1
        if message:
            assert message in done.stderr and "CUDA_HOME=" in done.stderr
            assert "virtual environment" not in done.stderr
        else:
            assert failed(done) == "virtual environment"


@pytest.fixture
def recorded_pip(tmp_path):
    """Return (environment, notes, wheels). The environment's Python does not run pip, but writes its
    arguments and the HOROVOD_* variables to the notes.
    """
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    libraries = tmp_path / "wheels" / "nvidia"
    for name in ("nccl/lib", "nccl/include", "cuda_runtime/lib"):
        (libraries / name).mkdir(parents=True)
    (libraries / "nccl" / "lib" / "libnccl.so.2").touch()
    notes = tmp_path / "notes"
    (venv / "bin" / "python").write_text(f"""#!/bin/sh
case "$*" in *"-m pip"*) echo "$@" >>{notes}; env | grep -E '^(HOROVOD_|LDFLAGS)' >>{notes}; exit 0 ;; esac
PYTHONPATH={libraries.parent} exec {sys.executable} "$@"
""")
    (venv / "bin" / "python").chmod(0o755)
    return venv, notes, libraries


def test_what_an_environment_for_gpus_is_made_of(tmp_path, recorded_pip):
    """Does a set-up with GPU=1 install TensorFlow for GPUs instead of TensorFlow for CPUs, and compile
    Horovod with NVIDIA's NCCL?
    """
    venv, notes, libraries = recorded_pip
    cuda = nvcc(tmp_path / "cuda", "12.4")
    done = setup(venv, GPU="1", CUDA_HOME=cuda)
    assert failed(done).startswith("Horovod"), done.stderr  # the fake pip compiled nothing
    lines = (venv / "requirements.txt").read_text().split("\n")
    assert "tensorflow[and-cuda]>=2.18.1,<2.19" in lines and "keras>=3.15,<4" in lines
    assert not any(line.startswith("tensorflow-cpu") for line in lines)
    text = notes.read_text()
    assert f"-c constraints.txt -c constraints-gpu.txt -r {venv}/requirements.txt" in text
    assert "install --no-deps -e ." in text and "-e .[" not in text
    variables = {
        line.partition("=")[::2] for line in text.splitlines() if line.startswith(("HOROVOD_", "LDFL"))
    }
    assert {
        ("HOROVOD_GPU_OPERATIONS", "NCCL"),
        ("HOROVOD_CUDA_HOME", cuda),
        ("HOROVOD_NCCL_LINK", "SHARED"),
        ("HOROVOD_NCCL_INCLUDE", f"{libraries}/nccl/include"),
        ("HOROVOD_NCCL_LIB", f"{libraries}/nccl/lib"),
    } <= variables
    assert (libraries / "nccl/lib/libnccl.so").resolve().name == "libnccl.so.2"


def test_an_environment_for_cpus_asks_for_no_cuda(recorded_pip):
    """Does a set-up without GPU=1 install only the project's own dependencies, and compile Horovod without
    NCCL?
    """
    venv, notes, _ = recorded_pip
    setup(venv, CUDA_HOME="/nowhere")
    text = notes.read_text()
    assert re.search(r"install -c constraints\.txt -e \.(\[mpi\])?\n", text)
    assert "NCCL" not in text and "constraints-gpu" not in text and not (venv / "for-gpus").exists()


def test_interrupt_ends_the_step(tmp_path):
    """Does Ctrl-C end the processes of the running step, and does the output say that the next run resumes
    there?
    """
    python = tmp_path / "python"
    python.write_text(f"""#!/bin/sh
[ "$1" = -c ] && exec {sys.executable} "$@"
echo $$ > {tmp_path}/pid; sleep 60
""")
    python.chmod(0o755)
    env = {"PATH": "/usr/bin:/bin", "VENV": str(tmp_path / "venv"), "PYTHON": str(python)}
    # Tests that run in the background ignore Ctrl-C, as would all processes that they start.
    listening = ["env", "--default-signal=INT", "cluster/setup.sh"]
    script = subprocess.Popen(listening, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        assert time.monotonic() < until, "the step never began"
        time.sleep(0.05)
    script.send_signal(signal.SIGINT)
    assert "resumes" in script.communicate(timeout=60)[0] and script.returncode == 130
    child = Path("/proc", (tmp_path / "pid").read_text().strip())
    while child.exists():  # until init has reaped it
        assert time.monotonic() < until + 20, "the step lives on"
        time.sleep(0.05)


def test_make_lists_its_commands():
    """Does `make` without arguments list every command that README and CONTRIBUTING name, except `make
    setup-test`?
    """
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    texts = [(ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md")]
    named = set(re.findall(r"`make ([a-z-]+)", "".join(texts))) - {"setup-test"}
    assert named and named <= set(re.findall(r"make ([a-z-]+)", listed)), named


@pytest.mark.servers
def test_lab_shows_the_whole_course():
    """Does `make lab` start a JupyterLab with lecture 1, the exercises and the start page?"""
    port = ports.free()
    arguments = f"--no-browser --port {port} --ServerApp.token=secret"
    lab = subprocess.Popen(
        ["make", "lab", f"LAB_ARGS={arguments}"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        until = time.monotonic() + 240
        for path in ("lectures/01_convolution_as_gemm.ipynb", "exercises"):
            url = f"http://127.0.0.1:{port}/api/contents/{path}?content=0&token=secret"
            while True:
                try:
                    with urllib.request.urlopen(url) as answer:
                        assert json.load(answer)["path"] == path
                    break
                except urllib.error.URLError as error:
                    assert time.monotonic() < until and not isinstance(error, urllib.error.HTTPError), error
                    assert lab.poll() is None, "it has ended"
                    time.sleep(0.2)
    finally:
        lab.terminate()
        output = lab.communicate(timeout=120)[0]
        assert b"cluster.pages | extension was successfully loaded" in output and b"/lab?token=" in output
