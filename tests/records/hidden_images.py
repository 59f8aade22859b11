"""Are assignment 10's hidden images as difficult as its public ones? `python -m tests.records.hidden_images`

`SHOWN_SEED` draws the public images from a pool that is never used for training; the rest is hidden.
With `--search N`, N seeds are tried, and the best one is printed: on the two sets, three reference models,
none of them a recipe, have the most similar accuracies. Without it, ten recipes are trained with the public
and with other seeds, and the record hidden_images.json is written.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import hashlib
import json
import platform
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


def chosen(shown_seed: int, pool: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the public and of the hidden images in the pool, as in the assignment."""
    order = np.random.default_rng(shown_seed).permutation(pool)
    return order[:8_000], order[8_000:]


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

        def gap(seed: int) -> float:
            shown, hidden = chosen(seed, pool[1])
            return float(np.abs(table[shown].mean(0) - table[hidden].mean(0)).max())

        print(min((gap(seed), seed) for seed in range(args.search)))
        return
    hidden_seeds = np.random.default_rng(0).integers(10_000, 2**31, 5).tolist()  # as any submission's
    shown, hidden = chosen(names["SHOWN_SEED"], pool[1])
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


if __name__ == "__main__":
    main()
