"""nbgrader's step that puts back what a student changed, for a whole class and for given cells as well."""

import hashlib


def overwrite_with(source):
    """nbgrader's OverwriteCells, asking `source`. It also gives known cells their role back and restores
    given cells: nbgrader restores checks only, and stumbles where the cell before one is gone too.
    """
    from nbgrader.preprocessors import NbGraderPreprocessor, OverwriteCells

    order = source.order()

    class Overwrite(OverwriteCells):
        def preprocess(self, notebook, resources):
            self.notebook_id, self.assignment_id = source.name, source.assignment
            self.gradebook = source
            notebook, resources = NbGraderPreprocessor.preprocess(self, notebook, resources)
            self.restore(notebook)
            return notebook, resources

        def preprocess_cell(self, cell, resources, index):
            name = cell.metadata.get("nbgrader", {}).get("grade_id")
            if name in source.cells:
                cell.metadata.nbgrader.update(source.role(name))
            return super().preprocess_cell(cell, resources, index)

        def report_change(self, *_):
            """Nothing: it takes hidden checks for changes; `prepare.differences` says what was changed."""

        def restore(self, notebook):
            """Put missing locked cells and tasks behind the cell that stood before them."""
            names = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells]
            at = 0
            for name in order:
                role = source.role(name)
                if name in names:
                    at = names.index(name) + 1
                elif role["locked"] or role["grade"] or role["task"]:
                    made = self.missing_cell_transform(source.cells[name], source.points.get(name, 0))
                    made.metadata["nbgrader"].update(
                        {key: role[key] for key in role if key != "task" or role[key]}
                    )
                    if not role["grade"]:
                        made.metadata["nbgrader"].pop("points", None)
                    if notebook.nbformat_minor >= 5:
                        made["id"] = f"back-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
                    notebook.cells.insert(at, made)
                    names.insert(at, name)
                    at += 1

    return Overwrite
