"""A class is graded: each student exactly once, even if processes are killed, and without losing manual
scores."""

import json
import re
import shutil
import signal
import time
import warnings

import nbformat
import pytest

from cluster.__main__ import main
from cluster.slurm import client
from cluster.staff.course import CourseError
from cluster.staff.grading import driver, on_slurm
from cluster.staff.grading import grade as head
from cluster.staff.grading.grading_progress import Progress

from .classes import ENGINE, FULL, NAME


def test_a_class_is_graded_once(many):
    """Does each student get the points of the autograder's verdict? Does a second run execute only changed
    submissions?"""
    for name in ("ada", "bob", "cyd"):
        many.hand_in(name, "HALF" if name == "bob" else "x = 1")
    result = many.run()
    assert sorted(result.graded) == ["ada", "bob", "cyd"] and not result.ungraded
    assert many.points() == {"ada": FULL, "bob": FULL | {"double-of-others": 0.0}, "cyd": FULL}
    many.hand_in("cyd", "HALF")
    result = many.run()
    assert result.unchanged == ["ada", "bob"] and result.graded == ["cyd"]
    assert many.points()["cyd"]["double-of-others"] == 0.0
    assert many.executed() == {"ada": 1, "bob": 1, "cyd": 2}
    assert not list(many.root.glob(".grading/runs/*/dispatches/*"))
    lines = (many.root / ".grading/runs" / NAME / "journal.jsonl").read_text().splitlines()
    facts, whole = json.loads(lines[0]), json.loads(lines[1])
    assert len(lines) == 4 and facts["kind"] == "local" and facts["ended"] >= facts["began"]
    assert (whole["kind"], whole["parts"], whole["told"]) == ("local", 1, 1)


def test_solutions_do_not_travel_with_the_work(many):
    """Is the paired script kept out of the folder that workers read, and the solution's code out of the
    feedback?"""
    many.hand_in("ada")
    many.run()
    many.course.feedback(NAME, "ada")
    names = [path.name for path in (many.root / ".grading").rglob("*") if path.suffix == ".py"]
    texts = [path.read_text() for path in many.course.folder("feedback", "ada", NAME).rglob("*.html")]
    assert names == [] and texts and "twice_the_number" not in "".join(texts)


def test_what_cannot_be_read_has_a_defined_score(many):
    """Does an unreadable notebook get 0 points and feedback, and is it marked for manual grading? Is the rest
    of the class graded?"""
    many.hand_in("ada")
    many.hand_in("bad", text="{")
    many.hand_in("two", name="a.ipynb")
    many.hand_in("two", name="b.ipynb")
    result = many.run()
    assert "doubling.ipynb" in result.unreadable["bad"] and "a.ipynb, b.ipynb" in result.unreadable["two"]
    assert many.points() == {"ada": FULL, "bad": dict.fromkeys(FULL, 0.0), "two": dict.fromkeys(FULL, 0.0)}
    with many.book() as book:
        waiting = [book.find_submission(NAME, name).needs_manual_grade for name in ("ada", "bad", "two")]
    page = many.course.feedback(NAME, "bad")[0].read_text()
    assert waiting == [False, True, True]
    assert result.unreadable["bad"] in page and page.count("<pre>") == 0 and "of 2</td>" in page
    many.hand_in("bad")
    assert many.run().graded == ["bad"] and many.points()["bad"] == FULL


def test_deleted_and_disguised_cells(many):
    """Are deleted checks and read-only cells restored? Is a check whose metadata a student changed to an
    answer still graded?"""
    del many.released.cells[2:]
    many.hand_in("ada")
    result = many.run()
    assert any(note.endswith(": double-of-one, double-of-others") for note in result.notes["ada"])
    assert many.points()["ada"] == FULL
    many.released = nbformat.read(many.root / "exercises" / NAME / "doubling.ipynb", as_version=4)
    many.released.cells[-1].metadata.nbgrader |= {"grade": False, "solution": True, "locked": False}
    many.released.cells[-1].source = "pass"
    many.hand_in("eve", "HALF")
    assert many.run().graded == ["eve"] and many.points()["eve"]["double-of-others"] == 0.0


def test_a_killed_coordinator_loses_nothing_and_grades_nothing_twice(many):
    """If the coordinator is killed at either of two moments, does each student get the right points, with
    only the running submissions executed twice?"""
    students = [f"s{i}" for i in range(8)]
    for name in students:
        many.hand_in(name, "HALF" if name == "s3" else "x = 1")
    (many.seen / "slow").touch()
    for enough in (1, 4):
        process = many.start()
        wait(lambda n=enough: len(many.executed()) >= n)
        process.send_signal(signal.SIGKILL)
        process.wait()
    result = many.run()
    assert sorted([*result.graded, *result.unchanged]) == students and not result.ungraded
    after = many.executed()
    assert set(after) == set(students)
    assert sum(after.values()) <= len(students) + 4, "two ran when each of two coordinators was killed"
    right = {name: dict(FULL) for name in students}
    right["s3"]["double-of-others"] = 0.0
    assert many.points() == right and many.run().unchanged == students and many.executed() == after


def wait(condition):
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end, "nothing happened for five minutes"
        time.sleep(0.01)


def test_the_infrastructure_costs_no_points(many, capfd):
    """Is a submission left ungraded if it crashes its worker or its grading always fails? Are the others
    graded?"""
    for name, answer in (("ada", "x = 1"), ("again", "AGAIN"), ("crash", "CRASH")):
        many.hand_in(name, answer)
    result = many.run()
    assert result.graded == ["ada"] and set(many.points()) == {"ada"}
    assert set(result.ungraded) == {"again", "crash"} and "is tired" in result.ungraded["again"]
    assert 2 <= many.executed()["again"] <= 3, "the crash of a neighbour may have ended one attempt"


def test_points_of_a_changed_check_do_not_stay_without_a_verdict(many):
    """If a submission cannot be regraded, are the points of changed checks withdrawn, and the others kept?"""
    many.hand_in("ada")
    many.run()
    many.change_check("double-of-others", lambda text: f"{text}\n# another text")
    (many.seen / "again").touch()
    assert many.run().ungraded["ada"].endswith(": double-of-others")
    assert many.points()["ada"] == FULL | {"double-of-others": None}
    with many.book() as book:
        assert book.find_grade("double-of-others", "doubling", NAME, "ada").needs_manual_grade
        assert not book.find_grade("double-of-one", "doubling", NAME, "ada").needs_manual_grade
    many.change_check("double-of-others", lambda text: text.removesuffix("\n# another text"))
    assert many.run().unchanged == ["ada"], "the verdict that those checks gave is still there"
    assert many.points()["ada"] == FULL
    many.change_check("double-of-others", lambda text: f"{text}\n# another text")
    (many.seen / "again").unlink()
    assert many.run().graded == ["ada"] and many.points()["ada"] == FULL


def test_what_a_person_entered_survives(many):
    """Are an instructor's scores, extra credit and comments kept when a class is graded again? Are new
    submissions marked for manual grading?"""
    many.hand_in("ada", "HALF")
    many.run()
    with many.book() as book:
        grade = book.find_grade("double-of-others", "doubling", NAME, "ada")
        grade.manual_score, grade.extra_credit, grade.needs_manual_grade = 1.5, 0.5, False
        book.find_comment("double", "doubling", NAME, "ada").manual_comment = "nearly"
        book.db.commit()
    # as after a kill between writing the gradebook and recording it
    (many.root / ".grading/runs" / NAME / "items/ada/recorded.json").write_text("")
    shutil.rmtree(many.course.folder("autograded", "ada", NAME))
    assert many.run().unchanged == ["ada"] and many.executed() == {"ada": 1}
    assert (many.course.folder("autograded", "ada", NAME) / "doubling.ipynb").exists()
    many.hand_in("ada", "y = 1")
    many.run()
    with many.book() as book:
        grade = book.find_grade("double-of-others", "doubling", NAME, "ada")
        entered = grade.auto_score, grade.manual_score, grade.extra_credit, grade.score
        assert entered == (2.0, 1.5, 0.5, 2.0) and grade.needs_manual_grade
        assert book.find_comment("double", "doubling", NAME, "ada").comment == "nearly"
    [page] = many.course.feedback(NAME, "ada")
    assert "nearly" in page.read_text()


def test_no_answer_is_said_and_a_new_check_has_a_row(many):
    """Does an unchanged answer cell get the comment “No response.”? Does a check that has no row in the
    gradebook yet get its points?"""
    many.hand_in("ada", many.released.cells[1].source)
    many.run()
    with many.book() as book:
        assert book.find_comment("double", "doubling", NAME, "ada").comment == "No response."
        grade = book.find_grade("double-of-others", "doubling", NAME, "ada")
        book.db.delete(grade)
        book.db.commit()
    many.hand_in("ada", "x = 2")
    many.run()
    assert many.points()["ada"] == FULL


def test_nbgraders_autograde_uses_the_same_verdicts(many, monkeypatch):
    """Do `nbgrader autograde` and Formgrader's Autograde button reuse existing verdicts, and grade new
    submissions?"""
    from nbgrader.apps.api import NbGraderAPI

    monkeypatch.setattr(head, "ENGINE", ENGINE)
    many.hand_in("ada", "HALF")
    many.run()
    many.course.autograde(NAME, "ada")
    assert many.executed() == {"ada": 1} and many.points()["ada"]["double-of-others"] == 0.0
    many.hand_in("bob", "HALF")
    api = NbGraderAPI(many.course.coursedir, config=many.course.config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from nbgrader
        answer = api.autograde(NAME, "bob")
    assert answer["success"], answer
    assert many.points()["bob"] == many.points()["ada"] and many.run().unchanged == ["ada", "bob"]
    assert many.executed() == {"ada": 1, "bob": 1}
    shown = {row["student"]: (row["autograded"], row["score"]) for row in api.get_submissions(NAME)}
    assert shown == {"ada": (True, 1.0), "bob": (True, 1.0)}


def test_nbgraders_autograde_reports_errors(many, monkeypatch):
    """Does `nbgrader autograde` report an unreadable notebook and deleted checks, but not the hidden tests
    that every released check lacks? Does it end with an error and write no points if the infrastructure
    fails?"""
    from nbgrader.apps.api import NbGraderAPI

    monkeypatch.setattr(head, "ENGINE", ENGINE)
    many.hand_in("bad", text="{")
    many.hand_in("cyd", "AGAIN")
    del many.released.cells[2]
    many.hand_in("eve")
    api = NbGraderAPI(many.course.coursedir, config=many.course.config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from nbgrader
        bad, cyd, eve = (api.autograde(NAME, name) for name in ("bad", "cyd", "eve"))
    assert bad["success"] and "bad: doubling.ipynb" in bad["log"]
    assert not cyd["success"] and "tired" in cyd["log"]
    assert eve["success"] and ": double-of-one\n" in eve["log"] and "double-of-others" not in eve["log"]
    zero, none = dict.fromkeys(FULL, 0.0), dict.fromkeys(FULL)
    assert many.points() == {"bad": zero, "cyd": none, "eve": FULL}
    with many.book() as book:
        assert book.find_submission(NAME, "bad").needs_manual_grade
    assert list(many.run().unreadable) == ["bad"] and many.executed()["eve"] == 1
    assert "doubling.ipynb" in many.course.feedback(NAME, "bad")[0].read_text()


def test_wrong_names_are_listed_with_valid_ones(many):
    """Is it an error if there is no submission at all, or none by a named student?"""
    with pytest.raises(CourseError, match=f"{NAME}.*grade collect"):
        many.run()
    many.hand_in("ada")
    with pytest.raises(CourseError, match="eva: "):
        many.run("eva")


def test_a_fresh_clone_is_told_the_command(course, monkeypatch):
    """If an assignment was never released from this clone, does the error name a command that releases it?"""
    with pytest.raises(CourseError) as refused:
        head.grade_class(course, NAME, backend=head.Local(1), engine=ENGINE)
    command = re.search(r"`\S+ \S+ cluster ([^`]*)`", str(refused.value))[1]
    monkeypatch.chdir(course)
    assert main(command.split()) == 0
    with pytest.raises(CourseError, match="grade collect"):
        head.grade_class(course, NAME, backend=head.Local(1), engine=ENGINE)


def test_an_array_that_slurm_refuses_leaves_nothing_behind(many, monkeypatch):
    """If Slurm refuses an array, does the error name the option to correct? Can the class then be graded on
    this machine?"""

    def ask(*command, **_):
        raise client.SlurmError("sbatch: error: invalid partition specified: x")

    monkeypatch.setattr(client, "ask", ask)
    many.hand_in("ada")
    with pytest.raises(CourseError, match=r"array: invalid partition specified: x\. .*--partition"):
        head.grade_class(many.root, NAME, backend=on_slurm.Array(partition="x"), engine=ENGINE)
    assert not list(many.root.glob(".grading/runs/*/dispatches/*")) and many.run().graded == ["ada"]


@pytest.fixture
def queue(many, monkeypatch):
    """The answer of squeue about the array of a killed coordinator, in which ada waits. None: Slurm does not
    answer. Other arrays are sent and then unknown to Slurm."""
    many.hand_in("ada")
    head.Coordinator(many.course, NAME, on_slurm.Array(), engine=ENGINE)
    folder = many.root / ".grading/runs" / NAME / "dispatches" / "first"
    folder.mkdir()
    plan = {"job": "first", "kind": "slurm", "sent": 0.0, "parts": [[["ada", "key"]]], "workers": 1}
    (folder / "plan.json").write_text(json.dumps(plan))
    shown: dict = {"first": "", "sent": []}

    def ask(*command, **_):
        if command[0] == "sbatch":
            shown["sent"].append(command[-1])
        answer = shown["first"] if "--name=first" in command else ""
        if answer is None:
            raise client.SlurmError("squeue did not answer within 30 s.")
        return answer

    monkeypatch.setattr(client, "ask", ask)
    monkeypatch.setattr(on_slurm, "ASK", 0.0)
    monkeypatch.setattr(on_slurm.Array, "settle", 0.0)
    monkeypatch.setattr(on_slurm.Array, "pause", 0.0)
    return shown


def test_an_array_of_a_killed_coordinator_is_followed_to_its_end(many, queue, monkeypatch):
    """Is the array followed while Slurm lists it or does not answer, and is what it leaves sent again, three
    times?"""
    answers, seen = iter([None, "0|RUNNING|None\n", ""]), []

    def show(progress, status, steps):
        seen.append((status, len(queue["sent"])))
        queue["first"] = next(answers, "")

    queue["first"] = "0|PENDING|Priority\n"
    monkeypatch.setattr(Progress, "show", show)
    result = head.grade_class(many.root, NAME, backend=on_slurm.Array(), engine=ENGINE)
    assert list(result.ungraded) == ["ada"] and len(queue["sent"]) == driver.ATTEMPTS
    followed = [status for status, sent in seen if not sent]
    assert len(followed) == 4 and followed[0].startswith("1 ") and followed[1] and followed[2:] == ["", ""]
    assert not list(many.root.glob(".grading/runs/*/dispatches/*")) and many.run().graded == ["ada"]


@pytest.mark.parametrize(
    ("attempt", "starved", "sizes"),
    [(1, 0, [4, 4, 2]), (1, 1, [3, 3, 3, 1]), (2, 0, [1] * 10), (3, 0, [1] * 10)],
)
def test_parts_become_smaller(attempt, starved, sizes):
    """Are failed parts sent again as smaller parts, and finally one by one, starved submissions at once? Is
    every submission kept?"""
    items, backend = [("s", str(i)) for i in range(10)], head.Local(1)
    backend.slots = 3
    parts = driver.divided(set(items), set(items[:starved]), attempt, backend)
    assert [len(part) for part in parts] == sizes
    assert sorted(item for part in parts for item in part) == items
