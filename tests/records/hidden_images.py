"""Are assignment 10's hidden images as difficult as its public ones? `python -m tests.records.hidden_images`

Both sets are drawn from a pool of images that are never used for training. `SHOWN_SEED` draws the public
images, and a secret seed draws the hidden ones from the rest. With `--search N`, N seeds of each are tried,
and the best pair is printed: on its two sets, three reference models, none of them a recipe, have the most
similar accuracies. Without it, ten recipes are trained with the public and the hidden seeds, and the record
hidden_images.json is written.
"""

from __future__ import annotations

import argparse
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
T95 = 2.132  # Student's t with 4 degrees of freedom, 5% on each side
GROUPS = 3  # of five seeds each, as a student would use for a prediction


def assignment() -> dict[str, Any]:
    """Return the functions and constants of the solution that need no other cell's result."""
    names: dict[str, Any] = {}
    for node in ast.parse(SOLUTION.read_text()).body:
        plain = isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef)
        if plain or (
            isinstance(node, ast.Assign)
            and all(n.id.isupper() for n in ast.walk(node.targets[0]) if isinstance(n, ast.Name))
        ):
            exec(compile(ast.Module([node], []), str(SOLUTION), "exec"), names)
    return names


def references(x: np.ndarray, y: np.ndarray, pool: np.ndarray) -> dict[str, np.ndarray]:
    """Return {reference model: the class that it predicts for each image of the pool}."""
    rng, hot = np.random.default_rng(0), np.eye(10)[y]
    w = np.zeros((197, 10))
    one = np.c_[x, np.ones(len(x))]
    for _ in range(2_000):  # softmax regression
        mine = rng.integers(len(x), size=256)
        scores = np.exp(one[mine] @ w)
        w -= 0.2 * one[mine].T @ (scores / scores.sum(1, keepdims=True) - hot[mine]) / 256
    softmax = (np.c_[pool, np.ones(len(pool))] @ w).argmax(1)
    features = rng.standard_normal((196, 300)) / 14
    shift = rng.standard_normal(300)
    a, b = np.maximum(x @ features + shift, 0), np.maximum(pool @ features + shift, 0)
    ridge = np.linalg.solve(a.T @ a + 10 * np.eye(300), a.T @ hot)
    near = x[:4_000]
    neighbours = np.empty((len(pool), 5), int)
    for first in range(0, len(pool), 5_000):
        part = pool[first : first + 5_000]
        distances = (near**2).sum(1) - 2 * part @ near.T
        neighbours[first : first + 5_000] = np.argpartition(distances, 5, axis=1)[:, :5]
    votes = np.eye(10)[y[:4_000]][neighbours].sum(1).argmax(1)
    return {
        "softmax regression": softmax,
        "random features": (b @ ridge).argmax(1),
        "5 neighbours": votes,
    }


def chosen(shown_seed: int, hidden_seed: int, pool: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the public and of the hidden images in the pool, as in the assignment."""
    order = np.random.default_rng(shown_seed).permutation(pool)
    hidden = np.random.default_rng(hidden_seed).permutation(np.sort(order[8_000:]))
    return order[:8_000], hidden[:12_000]


def recipes() -> list[dict[str, Any]]:
    """Return ten recipes with different ranks, images, width, momentum and learning rates."""

    def rates(steps: int, top: float, warmup: int, fall: float) -> list[float]:
        return [top * min(1, (t + 1) / warmup) * min(1, fall * (1 - t / steps)) for t in range(steps)]

    made = []
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
    ]:
        made.append({"ranks": p, "images": n, "width": width, "momentum": momentum, "rates": rates(*form)})
    return made


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--search", type=int, metavar="N", help="try N seeds")
    args = parser.parse_args()
    begin, names = time.process_time(), assignment()
    pool = names["POOL"]
    x, y = names["training_images"]()
    everything, labels = names["held_out"](np.arange(pool[1]))
    right = {name: of == labels for name, of in references(x, y, everything).items()}
    if args.search:
        table = 100 * np.stack(list(right.values()), axis=1)

        def gap(pair: tuple[int, int]) -> float:
            shown, hidden = chosen(*pair, pool[1])
            return float(np.abs(table[shown].mean(0) - table[hidden].mean(0)).max())

        shown = min(
            range(args.search),
            key=lambda s: np.abs(table[chosen(s, 0, pool[1])[0]].mean(0) - table.mean(0)).max(),
        )
        secret = np.random.default_rng().integers(10_000, 99_999, args.search)
        print(min((gap((shown, int(s))), shown, int(s)) for s in secret))
        return
    hidden_seed, hidden_seeds = hidden_of(SOLUTION.read_text())
    shown, hidden = chosen(names["SHOWN_SEED"], hidden_seed, pool[1])
    rows, inside = [], []
    for recipe in recipes():
        of_seed = {}
        for seed in (*range(5 * GROUPS), *hidden_seeds):
            w = names["train_alone"](recipe, seed, x, y)["w"]
            of_seed[seed] = [
                names["accuracy"](w, everything[i], labels[i], recipe["width"]) for i in (shown, hidden)
            ]
        public = np.array([of_seed[seed][0] for seed in range(5 * GROUPS)])
        secret = float(np.mean([of_seed[seed][1] for seed in hidden_seeds]))
        rows.append(
            {name: value for name, value in recipe.items() if name != "rates"}
            | {
                "steps": len(recipe["rates"]),
                "public": round(float(public[:5].mean()), 3),
                "spread": round(float(public.std(ddof=1)), 3),
                "hidden": round(secret, 3),
                "all seeds": round(float(np.mean([b - a for a, b in of_seed.values()])), 3),
            }
        )
        inside.append(
            [(float(five.mean() - secret), float(five.std(ddof=1))) for five in public.reshape(GROUPS, 5)]
        )
        print(rows[-1], flush=True)
    images = float(np.std([row["all seeds"] for row in rows]))
    covered = {
        f"{points} points for the images": round(
            float(
                np.mean(
                    [abs(gap) <= T95 * np.sqrt(2 * s**2 / 5 + points**2) for of in inside for gap, s in of]
                )
            ),
            3,
        )
        for points in (0.0, 0.1, 0.15, 0.2, 0.3, 0.5)
    }
    code = Path(__file__).read_text()
    record = {
        "made": {
            "command": "python -m tests.records.hidden_images",
            "sha256": hashlib.sha256(code.encode()).hexdigest()[:16],
            "date": datetime.date.today().isoformat(),
            "machine": f"{platform.machine()}, one thread",
            "python": platform.python_version(),
            "numpy": np.__version__,
            "cpu seconds": round(time.process_time() - begin),
        },
        "references": {
            name: [round(100 * float(of[i].mean()), 2) for i in (shown, hidden)] for name, of in right.items()
        },
        "recipes": rows,
        "hidden less public": {
            "mean": round(float(np.mean([r["all seeds"] for r in rows])), 3),
            "deviation": round(images, 3),
        },
        "share of 90% intervals that hold": covered,
    }
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record["hidden less public"]), covered)


def hidden_of(text: str) -> tuple[int, tuple[int, ...]]:
    """Return the seed of the hidden images, and the hidden training seeds, from the solution's hidden
    tests."""
    [seed] = set(re.findall(r"HIDDEN_IMAGES = ([\d_]+)", text))
    [seeds] = set(re.findall(r"HIDDEN_SEEDS = \(([\d_, ]+)\)", text))
    return int(seed), tuple(int(one) for one in seeds.split(","))


if __name__ == "__main__":
    main()
