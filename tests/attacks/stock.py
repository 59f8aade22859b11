"""Run the same attacks against nbgrader with its default settings, each in a separate course inside a
sandbox."""

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from cluster.staff.course import CourseError, say
from cluster.staff.engine.sandbox.cgroups import Group
from cluster.staff.engine.verdict import Limits
from cluster.staff.submissions import grading_folder
from tests import formgrader_page
from tests.attacks import corpus, imports, judge
from tests.attacks.corpus import ASSIGNMENT, MALLORY

CONFIG = """c = get_config()
c.CourseDirectory.root = {course!r}
c.CourseDirectory.source_directory = "solutions"
"""
LONGEST = 300  # seconds for two submissions and their feedback; nbgrader's own limit is 30 s per cell
GRADE = f"nbgrader autograde {ASSIGNMENT} --force; nbgrader generate_feedback {ASSIGNMENT} --force"
LATER = "; pgrep -f '[e]xploit-' && sleep 3"  # gives processes that an attack left behind time to act


def grade_attacks(root, attacks, workspace):
    """Run the attacks against nbgrader's own grading; return {attack: Outcome}."""
    from cluster.staff.release.twins import write_notebook

    base = workspace / "base"
    course, _ = corpus.make_course(root, base, CONFIG.format(course=str(base / "course")))
    (course / "autotests.yml").unlink()
    write_notebook(course / "solutions" / ASSIGNMENT / "doubling.py")
    (course / "solutions" / ASSIGNMENT / "doubling.py").unlink()
    inside(base, f"nbgrader generate_assignment {ASSIGNMENT} --create")
    released = course / "release" / ASSIGNMENT / "doubling.ipynb"
    if not released.exists():
        raise CourseError("nbgrader generated no release of the attacked assignment")
    for student in ("bob", "wanda"):
        answer = corpus.WRONG if student == "wanda" else "def double(x):\n    return 2 * x"
        corpus.honest(released, course / "submitted" / student / ASSIGNMENT, answer, "canary-work")
    corpus.mark_gradebook(f"sqlite:///{course}/gradebook.db", "bob")
    inside(base, GRADE)
    page = course / "feedback" / "wanda" / ASSIGNMENT / "doubling.html"
    ordinary = judge.secrets_in(page.read_text())
    cache = Kept(root / ".grading" / "exploits-stock.json")
    results = {name: cache.get(attack) for name, attack in attacks.items()}
    todo = [attack for name, attack in attacks.items() if results[name] is None]
    say(f"stock nbgrader: {len(todo)} attacks to run, {len(attacks) - len(todo)} known from an earlier run")
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        jobs = {pool.submit(one, attack, base, workspace / attack.name, ordinary): attack for attack in todo}
        for number, job in enumerate(as_completed(jobs), 1):
            attack = jobs[job]
            results[attack.name] = cache.put(attack, job.result())
            say(f"  stock nbgrader {number} of {len(jobs)}: {attack.name}")
    return results


class Kept:
    """Outcomes of earlier runs, cached in a file and reused for unchanged attacks."""

    def __init__(self, path):
        self.path, self.known = path, grading_folder.load(path) or {}
        path.parent.mkdir(mode=0o700, exist_ok=True)

    def key(self, attack):
        fields = [field.name for field in dataclasses.fields(judge.Outcome)]
        text = [attack.text, fields, CONFIG, GRADE, importlib.metadata.version("nbgrader")]
        return hashlib.sha256(json.dumps(text).encode()).hexdigest()

    def get(self, attack):
        """Return the cached Outcome of an attack, or None if the attack is new or changed."""
        result = self.known.get(attack.name, {})
        return judge.Outcome(**result["outcome"]) if result.get("key") == self.key(attack) else None

    def put(self, attack, outcome):
        self.known[attack.name] = {"key": self.key(attack), "outcome": dataclasses.asdict(outcome)}
        grading_folder.write(self.path, json.dumps(self.known, indent=1))
        return outcome


def one(attack, base, workspace, ordinary):
    """Run one attack in a copy of the course; return its Outcome."""
    if attack.archives:
        return imports.stock(attack, workspace)
    shutil.copytree(base, workspace, symlinks=True)
    course = workspace / "course"
    (course / "nbgrader_config.py").write_text(CONFIG.format(course=str(course)))
    for student in ("bob", "wanda"):  # they are graded already; attacks can target their results
        shutil.move(course / "submitted" / student, workspace / student)
    released = course / "release" / ASSIGNMENT / "doubling.ipynb"
    corpus.honest(released, course / "submitted" / "zoe" / ASSIGNMENT, "def double(x):\n    return 2 * x")
    with judge.Service() as service:
        folder = course / "submitted" / MALLORY / ASSIGNMENT
        corpus.hand_in(attack, released, folder, course, workspace / "home", service.port)
        before = state(course)
        start = time.monotonic()
        output = inside(workspace, GRADE + LATER)
        seconds = time.monotonic() - start
        outcome = examine(attack, course, ordinary)
        outcome.gains += ["the network was reached"] if service.reached else []
    outcome.gains += [f"{what} was changed" for what in before if state(course).get(what) != before[what]]
    if seconds > LONGEST - 5:
        outcome.gains.append("the batch did not end")
    if score_of(course, "zoe")[0] != 4:
        outcome.gains.append(f"the next student has {score_of(course, 'zoe')[0]} of 4 points")
    folders = [course, workspace / "home", workspace / "tmp"]
    for paths in corpus.traces({attack.name: attack}, folders).values():
        outcome.gains.append(f"left {', '.join(Path(path).name for path in paths)}")
    outcome.message = output[-200:]
    shutil.rmtree(workspace, ignore_errors=True)
    return outcome


def examine(attack, course, ordinary):
    import nbformat

    score, largest = score_of(course, MALLORY)
    graded = course / "autograded" / MALLORY / ASSIGNMENT / "doubling.ipynb"
    page = course / "feedback" / MALLORY / ASSIGNMENT / "doubling.html"
    text = page.read_text() if page.exists() else ""
    notebook = None
    with contextlib.suppress(Exception):  # the attack may have damaged the file
        notebook = nbformat.read(graded, as_version=4)
    shown = formgrader_page.of_nbgrader(graded) if notebook else ""
    outcome = judge.judge(attack, score, largest, "", judge.outputs_of(notebook), text, ordinary, shown)
    if graded.exists() and graded.stat().st_size > 20_000_000:
        outcome.gains.append(f"its notebook has {graded.stat().st_size / 1e6:.0f} MB")
    return outcome


def score_of(course, student):
    """Return (score, maximum), or (None, 4) if the gradebook has no score or cannot be read."""
    from nbgrader.api import Gradebook

    try:
        with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
            submission = book.find_submission(ASSIGNMENT, student)
            return submission.score, submission.max_score
    except Exception:
        return None, 4


def state(course):
    """Return {item: its content} for everything that no student may change."""
    results = {"the solution": (course / "solutions" / ASSIGNMENT / "doubling.ipynb").read_bytes()}
    results["another's work"] = (course / "submitted" / "zoe" / ASSIGNMENT / "doubling.ipynb").read_bytes()
    results["another's score"] = score_of(course, "bob")
    return results


def inside(workspace, command):
    """Run a shell command in the course's folder, in a sandbox where only the workspace can be written;
    return its output."""
    (workspace / "tmp").mkdir(exist_ok=True)
    group = Group.make(Limits(memory=3 * 2**30, processes=512))
    bwrap = [
        *("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid"),
        *("--die-with-parent", "--size", str(2**28), "--tmpfs", "/dev/shm", "--tmpfs", "/tmp"),
        *("--bind", str(workspace), str(workspace), "--bind", str(workspace / "tmp"), "/tmp"),
        *("--bind", str(workspace), str(workspace), "--chdir", str(workspace / "course")),
    ]
    env = os.environ | {"HOME": str(workspace / "home"), "JUPYTERHUB_API_TOKEN": "canary-token"}
    env["PATH"] = f"{Path(sys.executable).parent}:{env.get('PATH', os.defpath)}"
    process = subprocess.Popen(
        [*group.words(), *bwrap, "/bin/sh", "-c", command],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
    group.remove()
    return output.decode(errors="replace")
