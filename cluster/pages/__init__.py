"""The course's own pages in a Jupyter server: a start page and the jobs, at `<base_url>/course`.

An extension of Jupyter Server, enabled with `ServerApp.jpserver_extensions = {"cluster.pages": True}`. In
JupyterLab it adds the *Course* menu and launcher icons. The README lists its settings.
"""


def _jupyter_server_extension_points() -> list[dict]:
    """Return Jupyter Server's extension points without importing anything else."""
    from .extension import CoursePanel

    return [{"module": "cluster.pages", "app": CoursePanel}]
