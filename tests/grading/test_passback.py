"""Final scores are sent to a platform completely, once, and to the right people, whatever the platform
answers."""

import json
import re
import shutil
import stat
import warnings

import pytest

pytest.importorskip("pylti1p3", reason="cluster/setup.sh hub")

from cluster.staff import __main__ as command
from cluster.staff.course import Course
from cluster.staff.lti import grade_passback, score_service

from ..lti_platform import ITEMS, Platform
from .courses import make_course

NAME = "99_doubling"
POINTS = {"ada": 3.0, "ben": 1.0, "cem": 2.0, "dag": 0.0}


class Graded:
    """A course whose gradebook contains scores for one assignment."""

    def __init__(self, root):
        self.root, self.course = root, Course(root)

    def book(self):
        from nbgrader.api import Gradebook

        return Gradebook(self.course.coursedir.db_url, self.course.coursedir.course_id)

    def grade(self, student, points, person_has_to_look=False):
        with self.book() as book, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # from nbgrader's use of its database
            book.update_or_create_student(student)
            book.update_or_create_submission(NAME, student)
            grade = book.find_grade("double", "doubling", NAME, student)
            grade.auto_score, grade.needs_manual_grade = points, person_has_to_look
            book.db.commit()


class Sent(Graded):
    """A course with scores, registered with a platform whose users have logged in."""

    def __init__(self, root, platform, folder):
        (root / "nbgrader_site.py").write_text(f'c = get_config()\nc.Lti.folder = "{folder}"\n')
        super().__init__(root)
        self.platform, self.folder = platform, folder
        for student in POINTS:
            platform.enrol(student)
        platform.tool, platform.tool_keys = platform.url, grade_passback.public_keys(self.course.private)
        self.write("platform.json", platform.settings | {"audience": "", "context": ""})
        people = {login: person["sub"] for login, person in platform.people.items()}
        self.links = {"issuer": platform.url, "people": people}
        context = {"title": "HPDL", "lineitems": f"{platform.url}/c/1/lineitems?type=9"}
        self.links["contexts"] = {"c-1": context | {"scope": platform.granted}}
        self.write("links.json", self.links)

    def write(self, name, value):
        (self.folder / name).write_text(json.dumps(value))

    def send(self, *more, status=0):
        assert command.main(["lti", "99", *more]) == status

    def points(self):
        """Return {login: (points, maximum)} from the platform."""
        return {who: (s["scoreGiven"], s["scoreMaximum"]) for who, s in self.platform.latest().items()}

    def posts(self):
        """Return how many scores the platform has received since the last call."""
        results = [request for request in self.platform.asked if "/scores" in request]
        self.platform.asked.clear()
        return len(results)


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """Return the root of a course with POINTS in its gradebook, and fay, who has submitted nothing."""
    instance = Graded(make_course(tmp_path_factory.mktemp("graded")))
    with instance.book() as book:
        book.add_assignment(NAME)
        book.add_notebook("doubling", NAME)
        book.add_grade_cell("double", "doubling", NAME, max_score=3, cell_type="code")
    for student, points in POINTS.items():
        instance.grade(student, points)
    with instance.book() as book:
        book.add_student("fay")
    grade_passback.private_key(instance.course.private)
    return instance.root


@pytest.fixture
def sent(graded, tmp_path, monkeypatch):
    root = shutil.copytree(graded, tmp_path / "course")
    (tmp_path / "lti").mkdir()
    monkeypatch.setattr(score_service, "WAITS", (0.0, 0.0))
    monkeypatch.chdir(root)
    with Platform().running() as platform:
        yield Sent(root, platform, tmp_path / "lti")


def counts(output):
    """Return the numbers in the last line: sent, sent before, left out, rejected."""
    return [int(number) for number in re.findall(r"\d+", output.splitlines()[-1])]


def test_points_arrive_once(sent, capsys):
    """Does the first run send all scores, a repeated one nothing, and a later one only the changed score?"""
    sent.send()
    assert sent.points() == {who: (points, 3.0) for who, points in POINTS.items()}
    assert counts(capsys.readouterr().out) == [4, 0, 0, 0]
    (item,) = sent.platform.items.values()
    assert (item["label"], item["resourceId"], item["scoreMaximum"]) == ("99 doubling", NAME, 3)
    assert sent.posts() == 4
    sent.send()
    assert sent.posts() == 0 and counts(capsys.readouterr().out)[:2] == [0, 4]
    sent.grade("ben", 2.5)
    sent.send()
    assert sent.posts() == 1 and sent.points()["ben"] == (2.5, 3.0) and len(sent.platform.items) == 1


def test_a_dry_run_asks_nothing(sent, capsys):
    """Does a dry run list the scores, and those the platform already has, without any request?"""
    sent.send("--dry-run")
    output = capsys.readouterr().out
    assert "ada: 3 of 3" in output and counts(output)[:2] == [4, 0]
    assert sent.platform.asked == []
    sent.send("--student", "ada")
    assert sent.points() == {"ada": (3.0, 3.0)} and sent.posts() == 1
    sent.grade("ada", 1)
    sent.send("--dry-run")
    assert re.search(r"ada: 1 of 3 \(.* 3\)", capsys.readouterr().out)
    assert sent.platform.asked == [] and sent.points() == {"ada": (3.0, 3.0)}


def test_an_answer_that_fails_half_way(sent, capsys):
    """If the platform fails half-way, does the command report how many scores it has sent, and the student at
    whom it stopped? Does the same command resume there?"""
    sent.platform.faults = [None, "cut", "cut", "cut"]
    sent.send(status=1)
    output = capsys.readouterr()
    assert counts(output.out)[0] == 1 and output.err.count("ben") == 2 and "1 of 4" in output.err
    assert sent.points() == {"ada": (3.0, 3.0)} and sent.posts() == 4
    sent.send()
    assert sent.posts() == 3 and sent.points() == {who: (points, 3.0) for who, points in POINTS.items()}


def test_a_score_that_was_taken_without_an_answer_is_sent_again(sent, monkeypatch):
    """If the platform stored a score but its answer was lost, is the score sent again with a later time?
    (Moodle answers 409 to the same time.)"""
    monkeypatch.setattr(score_service, "WAITS", (1.1, 1.1))
    sent.platform.faults, sent.platform.digits = ["late"], 19
    sent.send("--student", "ada")
    assert sent.points() == {"ada": (3.0, 3.0)} and sent.posts() == 2


@pytest.mark.parametrize("faults", [[503], [429, 500], [401], [None, 401]])
def test_what_passes_is_waited_for(sent, faults):
    """After an overload or an expired token, are all scores sent in the end?"""
    sent.platform.faults = list(faults)
    sent.send()
    assert sent.points() == {who: (points, 3.0) for who, points in POINTS.items()}


def test_a_token_that_expires_is_renewed(sent):
    """If a token expires, is a new one requested? Does the command stop if the new token has expired, too?"""
    plain = sent.platform.take

    def forgetful(item, score):
        plain(item, score)
        sent.platform.tokens.clear()

    sent.platform.take = forgetful
    sent.send()
    assert len(sent.points()) == 4
    sent.grade("ada", 0)
    sent.platform.lifetime = -1
    sent.platform.asked.clear()
    sent.send(status=1)
    assert sent.posts() == 0


def test_one_student_does_not_affect_others(sent, capsys):
    """If a student is not in the platform's course, is that student named with the platform's answer, and are
    the others' scores sent?"""
    del sent.platform.people["ben"]
    sent.send(status=1)
    output = capsys.readouterr().err
    assert re.search(r"ben was rejected: \S+ answered 400 \(.*Incorrect score received", output)
    assert "stopped" not in output and set(sent.points()) == {"ada", "cem", "dag"}


@pytest.mark.parametrize("status", [400, 403, 404])
def test_general_errors_stop_sending(sent, capsys, status):
    """Does sending stop after three errors in a row?"""
    sent.platform.faults = [status] * 9
    sent.send(status=1)
    assert sent.posts() == grade_passback.STOP < 4
    assert "stopped at cem with 0 of 4 sent" in capsys.readouterr().err


def test_an_html_page_is_not_an_answer(sent, capsys):
    """Is a redirect to a login page treated as an error, rather than as success?"""
    sent.platform.faults = [302] * 9
    sent.send(status=1)
    assert "302" in capsys.readouterr().err
    assert sent.platform.scores == {} and "GET /log-in" not in sent.platform.asked


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: setattr(s.platform, "client_id", "another"), "answered 401 .*client_id, token_url"),
        (lambda s: (s.course.private / "lti/private.pem").unlink(), "key is missing: start the hub"),
        (lambda s: setattr(s.platform, "granted", [ITEMS]), "invalid_scope.*lets this tool send scores"),
        (lambda s: s.platform.tool_keys.update(keys=[]), "answered 401 .*public keyset URL"),
    ],
)
def test_without_access_nothing_is_sent(sent, capsys, change, message):
    """If the client ID is wrong, or the key or a scope is missing, does the command say how to fix it?"""
    change(sent)
    sent.send(status=1)
    assert re.search(message, capsys.readouterr().err)
    assert sent.platform.scores == {} and sent.platform.items == {}


def test_a_signature_by_another_key_is_refused(sent, capsys):
    """Does the platform of these tests really check signatures?"""
    (sent.course.private / "lti/private.pem").unlink()
    grade_passback.private_key(sent.course.private)
    sent.platform.tool_keys["keys"][0]["kid"] = grade_passback.public_keys(sent.course.private)["keys"][0][
        "kid"
    ]
    sent.send(status=1)
    assert "invalid_client: InvalidSignatureError" in capsys.readouterr().err


def test_who_is_left_out_is_named(sent, capsys):
    """Does the command name the students who need manual grading or have never logged in from the platform,
    and say what to do? Are students without a submission ignored?"""
    sent.grade("ben", 1, person_has_to_look=True)
    del sent.links["people"]["cem"]
    sent.write("links.json", sent.links)
    for more in (["--dry-run"], []):
        sent.send(*more, status=1)
        text = capsys.readouterr()
        assert re.search("ben .*Manual Grading", text.err) and "cem" in text.err
        assert "fay" not in text.out + text.err
    assert set(sent.points()) == {"ada", "dag"}
    assert command.main(["lti", "99", "--student", "zoe"]) == 1
    assert re.search("--student zoe.* ada, ben", capsys.readouterr().err)


def test_a_deleted_column_is_filled_again(sent):
    """If the platform's column was deleted, are all scores sent again? If a user has a new account on the
    platform, does it get the score?"""
    sent.send()
    sent.platform.items.clear()
    sent.platform.scores.clear()
    sent.platform.items["other"] = {"id": "other", "label": "theirs", "resourceId": "02", "scoreMaximum": 9}
    sent.send()
    assert len(sent.points()) == 4 and len(sent.platform.items) == 2
    sent.platform.enrol("ada")
    sent.links["people"]["ada"] = sent.platform.people["ada"]["sub"]
    sent.write("links.json", sent.links)
    sent.posts()
    sent.send()
    assert sent.posts() == 1 and sent.points()["ada"] == (3.0, 3.0)


def one_more(sent):
    sent.links["contexts"]["c-2"] = sent.links["contexts"]["c-1"] | {"title": "Another"}


def one_chosen(sent):
    one_more(sent)
    sent.write("platform.json", sent.platform.settings | {"audience": "", "context": "c-9"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.links["contexts"].clear(), "no instructor has opened the hub from a course of"),
        (lambda s: s.links.update(issuer="https://old.example"), "no instructor has opened the hub"),
        (one_more, r"from 2 courses of the platform: 'c-1' \(HPDL\), 'c-2' \(Another\). Set lti.context"),
        (one_chosen, r"from a course 'c-9' \(lti.context\)"),
        (
            lambda s: s.links["contexts"]["c-1"].update(scope=[ITEMS]),
            "'c-1' .* let this tool send scores. Let it",
        ),
        (lambda s: s.links["contexts"]["c-1"].update(lineitems="http://uni.example/x"), "not encrypted"),
        (lambda s: (s.root / "nbgrader_site.py").unlink(), r"settings have no \[lti\]"),
        (lambda s: s.write("platform.json", s.platform.settings | {"token_url": ""}), "no lti.token_url"),
    ],
)
def test_the_target_of_scores_is_never_guessed(sent, capsys, change, message):
    """If the course on the platform is unknown, ambiguous or without permission, does the command say how to
    fix it, and send no request?"""
    change(sent)
    sent.write("links.json", sent.links)
    sent.send(status=1)
    assert re.search(message, capsys.readouterr().err)
    assert sent.platform.asked == []


def test_only_the_grader_reads_key_and_record(sent):
    """Is .grading/lti accessible only to its owner?"""
    sent.send()
    for path in (sent.course.private / "lti").iterdir():
        assert path.suffix == ".lock" or stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE((sent.course.private / "lti").stat().st_mode) == 0o700


def test_two_at_a_time_are_refused(sent, capsys):
    """Does a second command report the running one instead of waiting?"""
    from cluster.system import files

    with files.lock(grade_passback.folder(sent.course.private) / f"{NAME}.lock"):
        sent.send(status=1)
    assert NAME in capsys.readouterr().err and sent.platform.scores == {}
