"""Measured overhead of the course's own tools: `python -m tests.bench PART`, or `make bench PART=...`.

A part is a module of this package with `ABOUT` (a line), `SECTIONS` ({name: function of the options that
returns a `measure.Found`}), `arguments(parser)` and `versions()` ({name: version} of what it compares with).
"""

PARTS = ("grading", "jobs")
