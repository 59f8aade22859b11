"""Formgrader's page of a graded notebook, made without its server."""

from traitlets.config import Config

NAMES = ("base_url", "notebook_path", "submission_id", "student", "last_name", "first_name")
ABOUT = dict.fromkeys(NAMES, "x") | {"assignment_id": "none", "notebook_id": "none", "index": 0, "total": 1}


def config(course: Config | None = None) -> Config:
    """Return the configuration of Formgrader's exporter. course: the one in nbgrader_config.py."""
    from nbgrader.server_extensions.formgrader import handlers

    settings = Config()
    settings.merge(course or {})
    settings.HTMLExporter.template_name = "formgrade"
    settings.HTMLExporter.extra_template_basedirs = [handlers.template_path]
    return settings


def of_nbgrader(path):
    """Return the page of nbgrader's own Formgrader."""
    from nbconvert.exporters import HTMLExporter

    return HTMLExporter(config=config()).from_filename(str(path), dict(ABOUT))[0]


def of_course(path, course):
    """Return the page of the course's Formgrader. course: a Course."""
    from cluster.staff.class_page.submission_page import SubmissionPage

    return SubmissionPage(config(course.config), course.root).from_filename(str(path), dict(ABOUT))[0]
