"""What JupyterLab is told by default; each user can set it otherwise for themselves."""

from __future__ import annotations

SETTINGS = {
    # A course's machine may reach no other host, and its users install nothing.
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
}
OFF = (
    "@jupyterlab/extensionmanager-extension",
    # Language servers: none is installed, and each log-in would ask for their status in vain.
    "@jupyterlab/lsp-extension",
    "@jupyterlab/notebook-extension:language-server",
    "@jupyterlab/fileeditor-extension:language-server",
)
