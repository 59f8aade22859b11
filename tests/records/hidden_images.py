"""Assignment 10: how much easier are the hidden images than the public ones?

`python -m tests.records.hidden_images` trains ten recipes with the five public and the five hidden seeds.
The record, hidden_images.json, has the mean accuracy of each recipe on both, and the number of honest 90%
intervals that contain the hidden mean. Such an interval is the public mean plus the mean difference of the
nine other recipes, give or take the spread of the seeds and of these differences.
"""

from __future__ import annotations

import ast
import datetime
import hashlib
import json
import platform
import re
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests import ROOT

SOLUTION = ROOT / "solutions" / "10_running_at_scale" / "time_to_accuracy.py"
RECORD = Path(__file__).with_suffix(".json")
T95 = {4: 2.132, 8: 1.860}  # Student's t by degrees of freedom, 5% on each side


def assignment() -> dict[str, Any]:
    """The functions and constants of the solution that need no other cell's result."""
    names: dict[str, Any] = {}
    for node in ast.parse(SOLUTION.read_text()).body:
        plain = isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef)
        if isinstance(node, ast.Assign):
            plain = all(n.id.isupper() for n in ast.walk(node.targets[0]) if isinstance(n, ast.Name))
        if plain:
            exec(compile(ast.Module([node], []), str(SOLUTION), "exec"), names)
    return names


def hidden() -> tuple[list[int], int, int, int, int]:
    """The hidden seeds; of the hidden images the first, the range, the seed and the number."""
    text = SOLUTION.read_text()
    [seeds] = set(re.findall(r"HIDDEN_SEEDS = \(([\d_,\s]+)\)", text))
    [(first, number)] = set(re.findall(r"x, y = at_hand\((\d[\d_]*), (\d[\d_]*)\)", text))
    [(seed, chosen)] = set(re.findall(r"default_rng\(([\d_]+)\)\.permutation\(len\(y\)\)\[:([\d_]+)\]", text))
    return [int(one) for one in seeds.split(",")], int(first), int(number), int(seed), int(chosen)


def recipes() -> list[dict[str, Any]]:
    """Ten recipes that differ in ranks, images, width, momentum and rates."""

    def rates(steps: int, top: float, warmup: int, fall: float) -> list[float]:
        return [top * min(1, (t + 1) / warmup) * min(1, fall * (1 - t / steps)) for t in range(steps)]

    return [
        {"ranks": p, "images": n, "width": width, "momentum": momentum, "rates": rates(*form)}
        for p, n, width, momentum, *form in [
            (8, 32, 24, 0.9, 260, 0.5, 20, 1.6),
            (7, 36, 24, 0.9, 260, 0.5, 20, 1.6),
            (8, 32, 20, 0.9, 300, 0.5, 20, 1.6),
            (4, 64, 32, 0.9, 260, 0.4, 30, 1.3),
            (1, 256, 64, 0.9, 300, 0.2, 1, 1.0),
            (8, 32, 64, 0.9, 300, 0.5, 20, 1.6),
            (8, 64, 16, 0.9, 400, 0.5, 40, 2.0),
            (2, 64, 24, 0.8, 500, 0.5, 10, 1.2),
            (8, 16, 48, 0.5, 600, 0.8, 50, 1.1),
            (8, 128, 12, 0.95, 300, 0.4, 30, 1.5),
        ]
    ]


def main() -> None:
    begin, names = time.process_time(), assignment()
    seeds, first, number, seed, chosen = hidden()
    images = names["pictures"]()
    public, (x, y) = names["pictures"](*names["SHOWN"]), names["pictures"](first, number)
    mine = np.random.default_rng(seed).permutation(len(y))[:chosen]
    secret, rows = (x[mine], y[mine]), []
    for recipe in recipes():
        means, spreads = [], []
        for those, test in ((names["SEEDS"], public), (seeds, secret)):
            weights = [names["train_alone"](recipe, one, *images)["w"] for one in those]
            found = [names["accuracy"](w, *test, recipe["width"]) for w in weights]
            means.append(float(np.mean(found)))
            spreads.append(float(np.std(found, ddof=1)))
        about = {name: value for name, value in recipe.items() if name != "rates"}
        row = {"steps": len(recipe["rates"]), "public": means[0], "spread": spreads[0], "hidden": means[1]}
        rows.append(about | {name: round(value, 3) for name, value in row.items()})
        print(rows[-1], flush=True)
    gaps = np.array([row["hidden"] - row["public"] for row in rows])
    held = []
    for i, row in enumerate(rows):
        rest = np.delete(gaps, i)
        images_and_seeds = T95[8] * rest.std(ddof=1) * (1 + 1 / len(rest)) ** 0.5
        half = max(images_and_seeds, T95[4] * row["spread"] * (2 / 5) ** 0.5)
        held.append(bool(abs(gaps[i] - rest.mean()) <= half))
    record = {
        "made": {
            "command": "python -m tests.records.hidden_images",
            "sha256": hashlib.sha256(Path(__file__).read_bytes()).hexdigest(),
            "date": datetime.date.today().isoformat(),
            "machine": f"{platform.machine()}, one thread",
            "python": platform.python_version(),
            "numpy": np.__version__,
            "cpu seconds": round(time.process_time() - begin),
        },
        "recipes": rows,
        "hidden minus public": {
            "mean": round(float(gaps.mean()), 2),
            "deviation": round(float(gaps.std(ddof=1)), 2),
            "least": round(float(gaps.min()), 2),
            "most": round(float(gaps.max()), 2),
        },
        "90% intervals that hold": f"{sum(held)} of {len(held)}",
    }
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    print(record["hidden minus public"], record["90% intervals that hold"])


if __name__ == "__main__":
    main()
