"""Malformed submissions, generated from a seed: broken notebooks, odd file names and special files."""

from __future__ import annotations

import copy
import json
import os
import random
from pathlib import Path

TEXTS = [
    "", "x = 1", "\ud800", "caf\udce9", "\x00", "\x1b[31mred\x1b[0m", "\u202eevil", "a\nb\r\nc", "é" * 300,
    "%%bash\nexit 1", "print('\ud83d')", "$\\frac{", "<script>alert(1)</script>", "{{ 1 }}", "double-of-one",
]  # fmt: skip
VALUES = [None, True, False, 0, -1, 3, 1e400, float("nan"), [], {}, [[]], {"": {}}, ["\ud800"], {"a": None}]
FOUND = ("cells", "metadata", "nbgrader", "source", "grade_id", "nbformat", "outputs", "cell_type", "id")
DEEP = "here JSON is nested deep"  # a placeholder for JSON that is too deep to be copied recursively
NAMES = [
    b"bad\xff.txt", b"\x1b[2Jclear.txt", b"two\nlines.csv", b"\xe2\x80\xaetxt.exe", b"n" * 255, b" ", b"-rf",
    "ü".encode() * 127, b"a\xed\xa0\x80b", b"doubling.ipynb.txt", b"'; rm -rf *.npy", b"<b>.json", b"%s%n",
]  # fmt: skip


def value(draw: random.Random):
    """Return a random value that may occur anywhere in a notebook."""
    kind = draw.randrange(4)
    if kind == 0:
        return draw.choice(TEXTS)
    if kind == 1:
        return [draw.choice(TEXTS) for _ in range(draw.randrange(4))]
    if kind == 2:
        nested = draw.choice(TEXTS)
        for _ in range(draw.choice([1, 3, 60])):
            nested = [nested] if draw.random() < 0.5 else {draw.choice(TEXTS): nested}
        return nested
    return copy.deepcopy(draw.choice([*VALUES, DEEP]))


def places(tree, found=None):
    """Return a list of (container, key), one for each value in a JSON tree."""
    waiting, found = [tree], []
    while waiting:
        here = waiting.pop()
        items = here.items() if isinstance(here, dict) else enumerate(here) if isinstance(here, list) else ()
        for key, item in items:
            found.append((here, key))
            waiting.append(item)
    return found


def changed(notebook: dict, draw: random.Random) -> dict:
    """Return a copy of a notebook (plain JSON) with some parts replaced, deleted, duplicated or moved."""
    copied = copy.deepcopy(notebook)
    for _ in range(draw.randrange(1, 5)):
        there = places(copied)
        if not there:
            return copied
        telling = [place for place in there if place[1] in FOUND]
        here, key = draw.choice(telling if telling and draw.random() < 0.5 else there)
        cells = copied.get("cells")
        cells = cells if isinstance(cells, list) else []
        match draw.randrange(7):
            case 0:
                del here[key]
            case 1 | 2:
                here[key] = value(draw)
            case 3 if cells:
                cells.insert(draw.randrange(len(cells) + 1), copy.deepcopy(draw.choice(cells)))
            case 4 if cells:
                draw.shuffle(cells)
            case 5 if cells and isinstance(cells[-1], dict):
                flood = {"output_type": "stream", "name": "stdout", "text": draw.choice(TEXTS)}
                cells[-1]["outputs"] = [flood] * draw.choice([1, 2000])
            case 6 if isinstance(here, dict):
                here[draw.choice(FOUND)] = value(draw)
    return copied


def as_bytes(notebook: dict, draw: random.Random) -> bytes:
    """Return a changed copy of a notebook as bytes, which may be damaged in addition."""
    text, depth = (
        json.dumps(changed(notebook, draw), ensure_ascii=draw.random() < 0.5),
        draw.choice([900, 10**5]),
    )
    text = text.replace(f'"{DEEP}"', "[" * depth + "]" * depth)
    data = text.encode("utf-8", "surrogatepass")
    match draw.randrange(12):
        case 0:
            return data[: draw.randrange(len(data))]
        case 1:
            at = draw.randrange(len(data))
            return data[:at] + draw.randbytes(draw.choice([1, 4])) + data[at:]
        case 2:
            return draw.choice([b"\xef\xbb\xbf" + data, text.encode("utf-16", "surrogatepass")])
        case 3:
            return draw.choice(
                [b"[" * 100_000, b'{"a":' * 100_000, b'{"cells": ' + b"[" * 900 + b"]" * 900 + b"}"]
            )
        case 4:
            return draw.choice(
                [b"", b"null", b"0" * 5000, b"\x00" * 100, b"1" * 5000, b'"\\ud800"', b"{}" * 9]
            )
    return data


def hand_in(folder: Path, notebook: dict, draw: random.Random) -> None:
    """Write one submission into a new folder."""
    folder.mkdir(parents=True)
    name = draw.choice(["doubling.ipynb"] * 9 + ["mine.ipynb", "a\udcff.ipynb"])
    (folder / name).write_bytes(as_bytes(notebook, draw))
    for _ in range(draw.choice([0, 0, 0, 1, 3])):
        beside(os.fsencode(folder), draw)


def beside(folder: bytes, draw: random.Random) -> None:
    """Put an odd file next to the notebook."""
    path = os.path.join(folder, draw.choice(NAMES))
    if os.path.lexists(path):
        return
    match draw.randrange(8):
        case 0:
            os.mkfifo(path)
        case 1:
            os.symlink(draw.choice([b"/etc/passwd", b"/dev/zero", path, b"\xff"]), path)
        case 2:  # a sparse file of 4 TiB or 1 MiB
            with open(path, "wb") as file:
                file.truncate(draw.choice([2**42, 2**20]))
        case 3:
            for _ in range(draw.choice([1, 30, 60])):
                path = os.path.join(path[:3000], b"d")
            os.makedirs(path)
        case 4:  # a folder with the name of a file that the exchange or grading uses
            name = draw.choice([b"timestamp.txt", b"a.ipynb", b"submission_secret.txt", b"received.json"])
            os.makedirs(os.path.join(folder, name, b"d"), exist_ok=True)
        case 5:
            os.makedirs(path)
            with open(os.path.join(path, draw.choice(NAMES)), "wb") as file:
                file.write(b"1")
        case _:
            with open(path, "wb") as file:
                file.write(draw.randbytes(9))
