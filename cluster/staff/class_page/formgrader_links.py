"""Formgrader's links to folders, notebooks and single scores.

nbgrader's own links leave the service; these open in this server's Lab.
"""

from __future__ import annotations

import json
from pathlib import Path

from jupyter_server.base.handlers import JupyterHandler
from tornado.web import authenticated

# nbgrader's own writes "/tree/…" and "/notebooks/…", without the server's base URL.
OURS = """
linkTo = (ours => (type, path) => {
  if (window !== window.top) return ours(type, path);
  const words = path.split("/").filter(word => word && word !== ".").map(encodeURIComponent);
  return (_, el) => $(el).attr({ href: LAB + words.join("/"), target: "_blank" })[0];
})(linkTo);
// A link to one mark, #NAME, begins there; nbgrader's page of a work at its first field.
if (typeof FormGrader === "function") FormGrader.prototype.setIndexFromUrl = (ours => function () {
  ours.call(this);
  const mark = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (mark) (this.last_selected = $(mark)), this.setCurrentIndex();
})(FormGrader.prototype.setIndexFromUrl);
"""


class Links(JupyterHandler):
    """Serve nbgrader's utils.js with a replacement for the function that creates links in a new tab."""

    @authenticated
    def get(self) -> None:
        from nbgrader.server_extensions.formgrader.handlers import static_path

        text = Path(static_path, "js", "utils.js").read_text()
        self.set_header("Content-Type", "text/javascript; charset=UTF-8")
        lab = json.dumps(f"{self.base_url}lab/tree/")
        self.finish(text + OURS.replace("LAB", lab))
