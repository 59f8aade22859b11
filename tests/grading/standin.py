"""An engine for tests of what surrounds it: it runs nothing and gives all points."""


class Verdict(dict):
    """The verdict as plain data."""

    def to_json(self):
        return dict(self)


class Engine:
    """Full points for each check, unless the notebook holds the word AGAIN; BROKEN makes it raise."""

    def __init__(self, workers):
        self.workers = workers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def grade(self, notebook, files):
        text = "".join(cell.source for cell in notebook.cells)
        if "BROKEN" in text:
            raise OSError("no space left on device")
        checks = {
            cell.metadata.nbgrader.grade_id: {"score": cell.metadata.nbgrader.points}
            for cell in notebook.cells
            if cell.metadata.get("nbgrader", {}).get("grade")
        }
        outcome = "again" if "AGAIN" in text else "graded"
        return Verdict(outcome=outcome, checks=checks, files=sorted(p.name for p in files.iterdir()))
