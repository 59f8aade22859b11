"""Read the attacks from the files in tests/exploits/, and submit them.

A file has a docstring of one sentence and at least one of

    ANSWER = '''…'''                            is appended to a wrong solution of the function `double`
    def hand_in(notebook, folder, texts, root)  changes the notebook, the submitted folder, or texts,
                                                {file name: text}, which are written last
    ARCHIVES = [(table, {name: owner})]         downloads of a platform, and its table of the class

FAIR is the number of points that the answer deserves (default 0). In ANSWER, @ROOT@, @HOME@, @PORT@ and
@MARK@ stand for the course's folder, the grader's home, the port of a service on the grader's machine, and a
word that marks the attack's traces. The first three are given because attackers may know their target.
"""

import runpy
import shutil
from dataclasses import dataclass
from pathlib import Path

ASSIGNMENT = "doubling"
WRONG = "def double(x):\n    return x\n"
SECRETS = {
    "the solution": ("secret_of_the_solution",),
    "a hidden check": ("secret_of_the_check", "8675309", "8_675_309", "17350618", "17_350_618"),
    "another's work": ("canary-work",),
    "the gradebook": ("canary-marks",),
    "a token": ("canary-token",),
    "the grader's home": ("canary-home",),
    "munge's socket": ("canary-munge",),
}


@dataclass
class Attack:
    name: str
    says: str
    answer: str = ""
    hand_in: object = None
    fair: float = 0
    archives: tuple = ()

    @property
    def mark(self):
        return f"exploit-{self.name}"


def load_all(folder):
    """Return {name: Attack} for the files in a folder, sorted."""
    rows = {}
    for path in sorted(folder.glob("*.py")):
        names = runpy.run_path(str(path))
        summary = " ".join((names["__doc__"] or "").split())
        answer, hand_in = names.get("ANSWER", ""), names.get("hand_in")
        archives = tuple(names.get("ARCHIVES", ()))
        if not summary or not (answer or hand_in or archives):
            raise ValueError(f"{path}: an attack has a docstring, and ANSWER, hand_in() or ARCHIVES")
        rows[path.stem] = Attack(path.stem, summary, answer, hand_in, names.get("FAIR", 0), archives)
    return rows


def make_course(root, folder, config):
    """Write the course that is attacked: its assignment, its settings, and the grader's home with secrets in
    it."""
    course, home = folder / "course", folder / "home"
    shutil.copytree(root / "tests" / "exploits" / "course", course / "solutions" / ASSIGNMENT)
    shutil.copy(root / "autotests.yml", course)
    (course / "nbgrader_config.py").write_text(config)
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").write_text("canary-home")
    (home / ".token").write_text("canary-home")
    (course / ".grading").mkdir(mode=0o700)
    return course, home


def mark_gradebook(url, student):
    """Put a secret into the gradebook: another student's address."""
    from nbgrader.api import Gradebook

    with Gradebook(url) as book:
        book.update_or_create_student(student, email="canary-marks")


def hand_in(attack, released, folder, root, home, port):
    """Write an attacker's submission into `folder`, made from the released notebook at the path
    `released`."""
    import nbformat

    folder.mkdir(parents=True)
    notebook, texts = nbformat.read(released, as_version=4), {}
    fill(notebook, WRONG + attack.answer)
    replacements = {"@ROOT@": root, "@HOME@": home, "@PORT@": port, "@MARK@": attack.mark}
    for cell in notebook.cells:
        for word, meaning in replacements.items():
            cell.source = cell.source.replace(word, str(meaning))
    texts[released.name] = before = nbformat.writes(notebook)
    if attack.hand_in:
        attack.hand_in(notebook, folder, texts, root)
    for name, text in texts.items():
        if text is before:
            texts[name] = nbformat.writes(notebook)
    for name, text in texts.items():
        (folder / name).write_text(text)


def honest(released, folder, answer, note=""):
    """Write an honest student's submission."""
    import nbformat

    folder.mkdir(parents=True)
    notebook = nbformat.read(released, as_version=4)
    fill(notebook, answer)
    notebook.cells.append(nbformat.v4.new_markdown_cell(note))
    nbformat.write(notebook, folder / released.name)


def fill(notebook, answer):
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = answer


def traces(attacks, folders):
    """Return {attack: [paths]} of files in these folders whose names contain an attack's mark."""
    results = {}
    for folder in map(Path, folders):
        for name, attack in attacks.items():
            paths = [str(path) for path in folder.glob(f"*{attack.mark}*")] if folder.is_dir() else []
            if paths:
                results.setdefault(name, []).extend(paths)
    return results
