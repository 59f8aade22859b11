"""The files of the repository that students get, in their folder, on a hub and in the grading sandbox."""

from __future__ import annotations

from pathlib import Path

import cluster

FILES = (
    "pyproject.toml",
    "constraints.txt",
    "environment.yml",
    "LICENSE*",
    "lectures/*.ipynb",
    "lectures/GLOSSARY.md",
    "lectures/units.toml",
    "lectures/figures/*.svg",
    "lectures/figures/*.png",
    "lectures/runs/**/*",
    "lectures/scripts/*.py",
    "exercises/*/**/*",
    "cluster/**/*",  # except STAFF
)
# Answers to an assignment are left out until the class has finished it (`--after 07`).
ANSWERS = {
    "07": ("cluster/training/distributed.py", "cluster/training/shards.py"),
    "08": ("cluster/training/optimizers.py", "cluster/training/schedules.py"),
}
STAFF = "cluster/staff"  # files for instructors and administrators
PAGES = "cluster/pages"  # extensions of a Jupyter server
SKIPPED = {"__pycache__", ".ipynb_checkpoints", "README.md"}


def chosen(root: Path, after: str | None = None) -> list[Path]:
    """Return the files of the repository that students get."""
    kept_back = {name for number, names in ANSWERS.items() if number > (after or "") for name in names}
    paths = sorted({path for pattern in FILES for path in root.glob(pattern) if path.is_file()})
    return [
        path
        for path in paths
        if not SKIPPED & set(path.relative_to(root).parts)
        and path.suffix != ".pyc"
        and not path.is_relative_to(root / STAFF)
        and str(path.relative_to(root)) not in kept_back
    ]


def package() -> list[Path]:
    """Return the files of this package that a grading sandbox contains: the students', without pages and
    documents, which affect no verdict."""
    root = Path(cluster.__file__).parents[1]
    return [
        path
        for path in chosen(root)
        if path.is_relative_to(root / "cluster")
        and not path.is_relative_to(root / PAGES)
        and path.suffix not in (".md", ".svg")
    ]
