"""The former name of `cluster.pages`, for servers whose settings still switch that on."""

from cluster.pages import _jupyter_server_extension_points  # noqa: F401
