"""nbgrader's configuration in people's servers, loaded from their role's folder."""

from __future__ import annotations

import json
import os
from pathlib import Path

ROLE = Path(__file__).parent
settings = json.loads((ROLE.parent / "settings.json").read_text())
mine = Path.home() / settings["folder"] / "assignments"
mine.mkdir(exist_ok=True)

c = get_config()  # type: ignore[name-defined]  # noqa: F821
c.CourseDirectory.course_id = settings["course"]
c.Exchange.root = f"{settings['state']}/exchange"
c.Exchange.assignment_dir = str(mine)
c.ExchangeFactory.submit = "cluster.pages.nbgrader_submit.Submit"
# Course List asks the hub which courses one may grade
if ROLE.name == "instructor" and os.environ.get("JUPYTERHUB_API_TOKEN"):
    from nbgrader.auth import JupyterHubAuthPlugin

    c.Authenticator.plugin_class = JupyterHubAuthPlugin
