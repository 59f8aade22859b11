"""Does the set-up script say what is wrong and go on where it stopped?"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def setup(venv, **env):
    """Run the set-up script towards another environment folder, with no Debian tools in sight."""
    env = {"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"], "VENV": str(venv), **env}
    return subprocess.run(["cluster/deploy/setup.sh"], cwd=ROOT, env=env, capture_output=True, text=True)


@pytest.fixture
def broken_python(tmp_path):
    """A Python that passes the first look and then cannot make a virtual environment."""
    python = tmp_path / "python"
    python.write_text(f"""#!/bin/sh
[ "$1" = -c ] && exec {sys.executable} "$@"
echo "no room left for the environment"; exit 7
""")
    python.chmod(0o755)
    return python


def test_no_usable_python(tmp_path):
    """Is a Python that does not fit refused, with what is needed and how to name another?"""
    done = setup(tmp_path / "venv", PYTHON="/bin/false")
    assert done.returncode == 1
    assert "No usable Python among: /bin/false" in done.stderr
    assert "PYTHON=" in done.stderr and "3.11" in done.stderr


def test_failed_step_is_named_with_its_log(tmp_path, broken_python):
    """Does a failing step stop the set-up, named, with the end of its log and how to go on?"""
    done = setup(tmp_path / "venv", PYTHON=str(broken_python))
    assert done.returncode == 1
    assert "Failed: virtual environment" in done.stderr
    assert "no room left for the environment" in done.stderr
    assert "again" in done.stderr
    assert "Horovod, compiled" not in done.stdout, "went on after a failed step"


def test_failed_step_is_tried_again(tmp_path, broken_python):
    """Does a second run repeat the failed step rather than believe it done?"""
    for _ in range(2):
        assert "Failed: virtual environment" in setup(tmp_path / "venv", PYTHON=str(broken_python)).stderr


def test_the_python_of_a_half_made_environment_is_not_taken(tmp_path, broken_python):
    """make puts the environment on PATH: is its own interpreter, about to be removed, passed over?"""
    half = tmp_path / "half" / "bin"
    half.mkdir(parents=True)
    (half.parent / "made-by-setup").touch()
    (half / "python3.11").symlink_to(sys.executable)
    named = tmp_path / "named"
    named.mkdir()
    (named / "python3.11").symlink_to(broken_python)
    done = setup(half.parent, PATH=f"{half}:{named}:/usr/bin:/bin")
    assert "no room left for the environment" in done.stderr, done.stdout + done.stderr


def test_foreign_environment_is_only_added_to(tmp_path):
    """Is an environment that the script did not make (conda's) left whole when a step fails, twice?"""
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


def test_interrupt_ends_the_step(tmp_path):
    """Does Ctrl-C end what the step started, so that nothing works on behind the next run?"""
    python = tmp_path / "python"
    python.write_text(f"""#!/bin/sh
[ "$1" = -c ] && exec {sys.executable} "$@"
echo $$ > {tmp_path}/pid; sleep 60
""")
    python.chmod(0o755)
    env = {"PATH": "/usr/bin:/bin", "VENV": str(tmp_path / "venv"), "PYTHON": str(python)}
    # Tests in the background ignore Ctrl-C, and so would all that they start.
    listening = ["env", "--default-signal=INT", "cluster/deploy/setup.sh"]
    script = subprocess.Popen(listening, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
    until = time.monotonic() + 30
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        assert time.monotonic() < until, "the step never began"
        time.sleep(0.05)
    script.send_signal(signal.SIGINT)
    assert "goes on from here" in script.communicate(timeout=20)[0] and script.returncode == 130
    child = Path("/proc", (tmp_path / "pid").read_text().strip())
    while child.exists():  # until init has collected it
        assert time.monotonic() < until + 20, "the step lives on"
        time.sleep(0.05)


def test_make_lists_its_commands():
    """Does `make` alone list every command the README names?"""
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    named = set(re.findall(r"`make ([a-z-]+)", (ROOT / "README.md").read_text()))
    assert named and named <= set(re.findall(r"make ([a-z-]+)", listed)), named


def test_lab_shows_the_whole_course():
    """Does `make lab` start a JupyterLab that sees lecture 1 and the exercises, and has the start page?"""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = f"--no-browser --port {port} --ServerApp.token=secret"
    lab = subprocess.Popen(
        ["make", "lab", f"LAB_ARGS={arguments}"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        until = time.monotonic() + 60
        for path in ("lectures/01_convolution_as_gemm.ipynb", "exercises"):
            url = f"http://127.0.0.1:{port}/api/contents/{path}?content=0&token=secret"
            while True:
                try:
                    with urllib.request.urlopen(url) as answer:
                        assert json.load(answer)["path"] == path
                    break
                except urllib.error.URLError as error:
                    assert time.monotonic() < until and not isinstance(error, urllib.error.HTTPError), error
                    time.sleep(0.2)
    finally:
        lab.terminate()
        said = lab.communicate(timeout=30)[0]
        assert b"cluster.panel | extension was successfully loaded" in said and b"/lab?token=" in said
