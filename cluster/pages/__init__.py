"""The course's own pages in a Jupyter server: a start page and the jobs, at `<base_url>/course`.

An extension of Jupyter Server, switched on with `ServerApp.jpserver_extensions = {"cluster.pages": True}`;
in JupyterLab it adds the menu *Course* and cards in the launcher. The README says what can be set.
"""


def _jupyter_server_extension_points() -> list[dict]:
    """What Jupyter Server asks for; nothing of it is imported before."""
    from .extension import CoursePanel

    return [{"module": "cluster.pages", "app": CoursePanel}]
