"""The class page in the grader's own Jupyter server, at `<base_url>/course/class`: for instructors.

An extension of Jupyter Server, switched on beside `cluster.pages`, whose pages it looks like. Who may see it
is who may enter that server: on the hub, its instructors.
"""


def _jupyter_server_extension_points() -> list[dict]:
    """What Jupyter Server asks for; nothing of it is imported before."""
    from .app import ClassPage

    return [{"module": "cluster.staff.class_page", "app": ClassPage}]
