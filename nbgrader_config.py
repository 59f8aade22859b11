"""nbgrader's settings for the course: solutions/ is its source, exercises/ its release, the rest is private.

nbgrader's own commands read this file when they are run in the course root; cluster.checks reads it, too.
"""

from pathlib import Path

c = get_config()  # noqa: F821 (nbgrader provides it)
root = Path(__file__).resolve().parent

# Submissions, scores and feedback are in .grading/, which only its owner can enter, because nbgrader creates
# gradebook.db readable by all users, and it contains the hidden tests.
private = root / ".grading"
private.mkdir(mode=0o700, exist_ok=True)
private.chmod(0o700)

c.CourseDirectory.root = str(root)
c.CourseDirectory.course_id = "convolution-to-cluster"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
c.CourseDirectory.submitted_directory = ".grading/submitted"
c.CourseDirectory.autograded_directory = ".grading/autograded"
c.CourseDirectory.feedback_directory = ".grading/feedback"
c.CourseDirectory.solution_directory = ".grading/solution"
# If a lock is held for more than SQLite's 5 s (two graders at once), the whole batch would fail.
c.CourseDirectory.db_url = f"sqlite:///{private}/gradebook.db?timeout=60"

# nbgrader releases every file next to a source notebook. The paired scripts and the solution's recorded runs
# are excluded by their full paths, because a student's runs/ must be graded with the notebook. (nbgrader
# spells the path with /./, where other steps have the student's name, and compares it literally.)
c.CourseDirectory.ignore = [
    ".ipynb_checkpoints",
    "*.pyc",
    "__pycache__",
    f"{root}/solutions/./*/*.py",
    f"{root}/solutions/./*/runs",
]

# Matches everything, because output on stderr (a warning, TensorFlow's log) must not cost points.
c.IgnorePattern.enabled = True
c.IgnorePattern.pattern = "(?s).*"

c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE\nraise NotImplementedError"}
c.InstantiateTests.autotest_filename = str(root / "autotests.yml")

# nbgrader would execute a student's notebook as the user who grades, and let its outputs decide the points.
# `nbgrader autograde` and Formgrader's button grade like `grade run` instead.
c.Autograde.exporter_class = "cluster.staff.grading.nbgrader_steps.Blank"
c.Autograde.sanitize_preprocessors = []
c.Autograde.autograde_preprocessors = [
    "cluster.staff.grading.nbgrader_steps.Judge",
    "nbgrader.preprocessors.CheckCellMetadata",
]
# Limits of grading that differ from the defaults (cluster/staff/README.md, Running), in every way to grade.
c.Grading.limits = {}  # of all assignments, such as {"cell": 90, "memory": "6G"}
c.Grading.limits_of = {}  # of single assignments, such as {"10": {"total": 600}}
# Formgrader's collect and `nbgrader collect`: no links, the folder's owner, the server's time.
c.ExchangeFactory.collect = "cluster.staff.submissions.nbgrader_exchange.Collect"
# Formgrader and `nbgrader release_assignment` replace a release atomically.
c.ExchangeFactory.release_assignment = "cluster.staff.results.give.HandOut"
# The late penalty of assignments with a due date (python -m cluster grade due --help).
c.AssignLatePenalties.plugin_class = "cluster.staff.submissions.due_dates.LatePenalty"
c.LatePenalty.per_day = 0.1  # fraction of the score, per started day
c.LatePenalty.free_days = 0  # per student, over all assignments
c.LatePenalty.grace = 10  # minutes

# Otherwise a student's HTML would run in the grader's browser session; nbconvert sanitises everything but
# Markdown.
c.HTMLExporter.sanitize_html = True
c.HTMLExporter.filters = {"markdown2html": "cluster.staff.results.markdown.in_cell"}

# nbgrader's feedback shows all hidden tests and needs a network. This feedback hides them, lists the checks
# by name, explains failures, and is a page without scripts that loads nothing.
c.GenerateFeedback.exporter_class = "cluster.staff.results.feedback.Feedback"
c.GenerateFeedback.preprocessors = [
    "cluster.staff.results.feedback.Marks",
    "cluster.staff.results.feedback.HideHiddenTests",
    "cluster.staff.results.feedback.Contents",
    "cluster.staff.results.feedback.Explain",
    "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
]

# Optional settings of a site: exchange, database (cluster/staff/hub writes them).
if (root / "nbgrader_site.py").exists():
    load_subconfig("nbgrader_site.py", path=str(root))  # noqa: F821 (nbgrader provides it)
