"""A course with one tiny assignment, for tests of releases and mutants."""

import shutil

from .. import ROOT

TWIN = '''# %% [markdown]
# # Doubling

# %% solution="double"
def double(x):
    """Twice x."""
    ### BEGIN SOLUTION
    twice_the_number = 2 * x
    return twice_the_number
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


def write_mutant(root, name, fails, answer):
    """Append a mutant to assignment 99's file of mutants; return the file's path."""
    path = root / "tests" / "wrong_solutions" / "99.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    entry = f"[{name}]\nmisconception = '{name}'\nfails = {sorted(fails)}\ncells.double = 'return {answer}'\n"
    path.write_text((path.read_text() if path.exists() else "") + entry)
    return path


def make_course(into):
    """Write the course into the folder `into`; return its root."""
    root = into / "course"
    folder = root / "solutions" / "99_doubling"
    folder.mkdir(parents=True)
    (folder / "doubling.py").write_text(TWIN)
    (folder / "runs").mkdir()
    (folder / "runs" / "reference.json").write_text("{}")
    for name in ("nbgrader_config.py", "autotests.yml"):
        shutil.copy(ROOT / name, root)
    return root


def add_exchange(root, exchange, more=""):
    """Create an exchange, and name it in the course's nbgrader_site.py. more: further settings."""
    for name in ("inbound", "outbound", "feedback"):
        (exchange / "convolution-to-cluster" / name).mkdir(parents=True)
    (root / "nbgrader_site.py").write_text(f"c = get_config()\nc.Exchange.root = {str(exchange)!r}\n{more}")
