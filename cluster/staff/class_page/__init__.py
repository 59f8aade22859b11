"""The class page in the grader's own Jupyter server, at `<base_url>/course/class`: for instructors.

An extension of Jupyter Server, enabled in addition to `cluster.pages`, with the same look. All users who
may enter that server may see it, which on the hub are its instructors.
"""


def _jupyter_server_extension_points() -> list[dict]:
    """Return the extension points for Jupyter Server, before anything else is imported."""
    from .app import ClassPage

    return [{"module": "cluster.staff.class_page", "app": ClassPage}]
