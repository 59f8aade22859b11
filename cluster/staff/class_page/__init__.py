"""The class page in the grader's own Jupyter server, at `<base_url>/course/class`: for instructors.

An extension of Jupyter Server, enabled in addition to `cluster.pages`, with the same look. All users with
access to that server can see it, on the hub only its instructors.
"""


def _jupyter_server_extension_points() -> list[dict]:
    """Return Jupyter Server's extension points without importing anything else."""
    from .app import ClassPage

    return [{"module": "cluster.staff.class_page", "app": ClassPage}]
