"""The code only gets smaller: `python -m tests.size` compares the statements per folder with their limits.

A folder must neither exceed its limit in [tool.size] of pyproject.toml nor stay over 3% below it, so that
removed code does not come back. `--write` lowers the limits to the current sizes.
"""

import ast
import re
import sys
import tomllib

from . import ROOT

FILE = ROOT / "pyproject.toml"


def statements(folder: str) -> int:
    """Return the number of statements (`ast.stmt` nodes) in the Python files under a folder."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / folder).rglob("*.py"))
    return sum(isinstance(node, ast.stmt) for tree in trees for node in ast.walk(tree))


def main() -> None:
    text = FILE.read_text(encoding="utf-8")
    limits = tomllib.loads(text)["tool"]["size"]
    sizes = {folder: statements(folder) for folder in limits}
    if "--write" in sys.argv:
        for folder, size in sizes.items():
            text = re.sub(rf'(?m)^"{folder}" = \d+$', f'"{folder}" = {min(size, limits[folder])}', text)
        FILE.write_text(text, encoding="utf-8")
        return
    faults = []
    for folder, size in sizes.items():
        if size > limits[folder]:
            faults.append(f"{folder}: {size} statements, at most {limits[folder]}")
        elif size < 0.97 * limits[folder]:
            faults.append(f"{folder}: {size} statements. Lower its limit: python -m tests.size --write")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
