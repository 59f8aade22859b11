"""A course repository with one small assignment and one lecture that submits a job."""

import shutil

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from .. import ROOT

TWIN = '''# %% [markdown]
# # Assignment 99: doubling
#
# Of $x$ it makes $2x$.

# %% solution="double"
def double(x):
    """Twice x."""
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION


# %% check="double-of-one" points=1
"""2 · 1 is 2."""
assert double(1) == 2

# %% check="double-of-others" points=2
"""Other numbers."""
import sys
print("a warning on stderr", file=sys.stderr)
# AUTOTEST double(0.1 + 0.2)
### BEGIN HIDDEN TESTS
assert double(17) == 34
### END HIDDEN TESTS
'''
FIGURE = '<svg xmlns="http://www.w3.org/2000/svg" width="80" height="40"><path d="M0 0H80V40H0z"/></svg>'
LECTURE = [
    new_markdown_cell("# 1 · A small lecture\n\n**How long is a second?**\n\n## Wait\n\nIt is $t = 1$ s."),
    new_code_cell("import matplotlib.pyplot as plt\n\nplt.plot([1, 2], [2, 1])\nplt.show()"),
    new_markdown_cell(
        "*A line that falls from 2 to 1.*\n\n## A job of this lecture\n\nIt doubles 21.\n\n"
        "![A line](figures/01_line.svg)"
    ),
    new_code_cell(
        "from cluster import submit\n\n\ndef double(x):\n    return 2 * x\n\n\n"
        "answer = submit(double, 21).result()"
    ),
    new_code_cell('print("the answer is", answer)'),
]


def write(root):
    """Write the course into the folder `root`, without releasing the assignment."""
    (root / "solutions" / "99_doubling").mkdir(parents=True)
    (root / "solutions" / "99_doubling" / "doubling.py").write_text(TWIN)
    for name in ("nbgrader_config.py", "autotests.yml"):
        shutil.copy(ROOT / name, root)
    shutil.copytree(ROOT / "cluster", root / "cluster", ignore=shutil.ignore_patterns("__pycache__"))
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    (root / "lectures").mkdir()
    (root / "lectures" / "figures").mkdir()
    (root / "lectures" / "figures" / "01_line.svg").write_text(FIGURE)
    nbformat.write(new_notebook(cells=LECTURE, metadata=kernel), root / "lectures" / "01_seconds.ipynb")
