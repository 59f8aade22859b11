"""Build the lectures: lectures/text/NN_topic.py (jupytext percent) -> lectures/NN_topic.ipynb, executed.

    python lectures/build.py            every lecture
    python lectures/build.py 01 04      these only
    python lectures/build.py --again    execute those, too, in which no code cell has changed
    python lectures/build.py 01 --check execute a copy; leave the committed notebook alone, and fail when its
                                        sources differ from the text's

A lecture whose code cells equal those of the committed notebook is not executed: it keeps its outputs, and
only its text is replaced.

A cell that raises an error, or writes to stderr, fails the build, which shows the cell's source. The build
also fails for a claim (`cluster.lecture.claim`) that does not hold or whose sentence is not in its section,
for a WARNING in the outputs, for more than 90 minutes of text and code (BUDGET), and for more than 250 kB of
figures, which get a palette of 64 colours. The notebook is written to a temporary file and then renamed, so a
failed build leaves the old one unchanged. Meaningless changes between runs (time stamps, versions, random
cell ids) are left out. Its jobs are run, not replayed from an earlier build.

--check compares the outputs with the committed ones: their number and kinds in each cell, and their texts,
word by word and number by number. For a cell tagged `measured`, whose numbers depend on the machine (seconds,
bytes per second, rounding errors, the machine itself), only number and kinds are compared; a claim about them
that does not hold is printed. The contents of images are not compared.
"""

import argparse
import base64
import hashlib
import io
import os
import pathlib
import re
import sys
import tempfile
import time
from decimal import Decimal

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from PIL import Image
from traitlets.config import Config

LECTURES = pathlib.Path(__file__).resolve().parent
MEASURED = "measured"  # the tag of a cell whose text depends on the machine or on the time
NUMBER = re.compile(r"(?<![\w.])[-+−]?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?")
CLOSE = Decimal("0.01")  # maximum relative difference; one unit in the last printed digit is always allowed
# The limits for 90 minutes, before the section *Further*.
BUDGET = {"words": 3_200, "code cells": 36, "lines of code": 380, "guesses": 12}
CELL_LINES, WIDTH = 20, 88  # maximum lines per code cell, and characters per line
COLOURS, FIGURES = 64, 250_000  # of a figure's palette, and maximum bytes of a notebook's figures
KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class BuildError(Exception):
    """A lecture that cannot be built; the message contains the cell and the reason."""


def generate(text):
    """Return the notebook of a paired script, without outputs. A cell's id is the hash of its source, so it
    is stable."""
    notebook = jupytext.read(text, fmt="py:percent")
    notebook.metadata = nbformat.from_dict(KERNEL)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    seen = {}
    for cell in notebook.cells:
        digest = hashlib.sha256(cell.source.encode()).hexdigest()[:8]
        seen[digest] = seen.get(digest, 0) + 1
        cell.id = f"{digest}-{seen[digest]}"
    return notebook


def execute(notebook, name, runs, timeout=600):
    """Run the notebook in lectures/, in place, with a progress line; raise BuildError for a cell that fails.

    runs: the folder for its jobs.
    """
    total = sum(cell.cell_type == "code" for cell in notebook.cells)
    done = 0

    def progress(cell, cell_index, execute_reply=None):
        nonlocal done
        done += 1
        if sys.stdout.isatty():
            print(f"\r{name}: cell {done} of {total}", end="\n" if done == total else "", flush=True)

    with tempfile.TemporaryDirectory(prefix="kernel-") as sockets:
        client = NotebookClient(
            notebook,
            timeout=timeout,
            kernel_name="python3",
            record_timing=False,
            # Not TCP: if two kernels start at once, one may take the other's port.
            config=Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/kernel"}}),
            # The warnings concern the transport, not the lecture.
            extra_arguments=["--IPKernelApp.log_level=40"],
            resources={"metadata": {"path": str(LECTURES)}},
            on_cell_executed=progress,
        )
        try:
            client.execute(env=os.environ | {"CLUSTER_RUNS": runs})
        except CellExecutionError as error:
            raise BuildError(f"{name}: {error}") from None
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "stream" and output.name == "stderr":
                raise BuildError(f"{name}: this cell writes to stderr\n{cell.source}\n---\n{output.text}")
        cell.metadata.pop("execution", None)


def refuse_faults(name, notebook):
    """Raise BuildError if a claim does not hold or a lecture exceeds its budget."""
    if faults := [*claim_faults(notebook), *budget_faults(notebook)]:
        raise BuildError("\n  ".join([f"{name}:", *faults]))


def claim_faults(notebook):
    """List the claims that do not hold or are not in their section's text, and the warnings, one line
    each."""
    found, section = [], []
    for cell in [*notebook.cells, nbformat.v4.new_markdown_cell("## end")]:
        if cell.cell_type == "markdown" and cell.source.startswith("## "):
            text = plain(" ".join(c.source for c in section if c.cell_type == "markdown"))
            for line in (line for c in section for line in printed(c)):
                if line.startswith(("✗", "WARNING")):
                    found.append(f"prints {line!r}")
                elif line.startswith("✓ ") and plain(line[2:]) not in text:
                    found.append(
                        f"claims {line[2:]!r}, which the section's text does not contain: change one of them"
                    )
            section = []
        section.append(cell)
    return found


def printed(cell):
    """Return the lines of a cell's output streams."""
    streams = (o.text for o in cell.get("outputs", ()) if o.output_type == "stream")
    return [line for text in streams for line in text.splitlines()]


def plain(text):
    """Return text without emphasis, in lower case, with single blanks."""
    return re.sub(r"\s+", " ", re.sub(r"[*$]", "", text)).strip().lower()


def budget_faults(notebook):
    """List the parts of a lecture that exceed BUDGET, CELL_LINES or WIDTH, one line each."""
    found, uses = [], dict.fromkeys(BUDGET, 0)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            prose, *further = re.split(r"(?m)^## Further$", cell.source)
            uses["words"] += len(prose.split())
            if further:
                break
            continue
        lines = [line for line in cell.source.splitlines() if line.strip()]
        uses["code cells"] += 1
        uses["lines of code"] += len(lines)
        uses["guesses"] += sum(line.startswith("guess(") for line in lines)
        if len(lines) > CELL_LINES:
            found.append(f"a cell has {len(lines)} lines, at most {CELL_LINES}: {lines[0]}")
        found += [f"a line has {len(x)} characters, at most {WIDTH}: {x}" for x in lines if len(x) > WIDTH]
    found += [f"has {uses[k]} {k}, at most {most}" for k, most in BUDGET.items() if uses[k] > most]
    size = sum(len(base64.b64decode(data["image/png"])) for data in figures(notebook))
    return found + [f"its figures have {size} bytes, at most {FIGURES}"] * (size > FIGURES)


def figures(notebook):
    """Yield the data of each output that is a figure."""
    for cell in notebook.cells:
        yield from (o.data for o in cell.get("outputs", ()) if "image/png" in o.get("data", {}))


def limit_colours(notebook):
    """Give each figure a palette of COLOURS colours, in place. Plots and grey photographs look the same."""
    for data in figures(notebook):
        image = Image.open(io.BytesIO(base64.b64decode(data["image/png"])))
        if image.mode != "P":
            small = io.BytesIO()
            image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
            data["image/png"] = base64.b64encode(small.getvalue()).decode()


def sources(notebook):
    """Return the parts that must be equal in a notebook and its paired script: kinds and sources of the
    cells."""
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def check_committed(text, target):
    """Raise BuildError if the committed notebook is missing, does not match its paired script, or has no
    outputs."""
    if not target.exists():
        raise BuildError(f"{target.name} is missing: run python lectures/build.py {text.stem[:2]}")
    committed = nbformat.read(target, as_version=4)
    stale = next(
        (c for c, t in zip(sources(committed), sources(generate(text)), strict=False) if c != t), None
    )
    if stale or len(committed.cells) != len(generate(text).cells):
        where = f"; the first cell that differs:\n{stale[1]}" if stale else ""
        raise BuildError(f"{target.name} is older than its text: run python lectures/build.py{where}")
    if any(cell.cell_type == "code" and cell.execution_count is None for cell in committed.cells):
        raise BuildError(f"{target.name} is committed without being executed: run python lectures/build.py")
    refuse_faults(text.stem, committed)


def shown(cell):
    """Return [(kind, text)] of a code cell's outputs: kinds are streams or MIME types, and texts have no
    mark-up."""
    found = []
    for output in cell.outputs:
        if output.output_type == "stream":
            if found and found[-1][0] == output.name:  # how a stream is divided depends on timing
                found[-1] = (output.name, found[-1][1] + output.text)
            else:
                found.append((output.name, output.text))
        else:
            data = output.get("data", {})
            text = data.get("text/html") or data.get("text/markdown") or data.get("text/plain", "")
            text = re.sub(r"(?s)<style.*?</style>|</?[a-zA-Z][^>]*>", " ", text)
            found.append((", ".join(sorted(data)) or output.output_type, text))
    return found


def differences(committed, executed):
    """Describe how the outputs of a lecture differ from the committed ones; tags are taken from
    `executed`."""
    found, number = [], 0
    for before, now in zip(committed.cells, executed.cells, strict=True):
        if now.cell_type != "code":
            continue
        number += 1
        old, new = shown(before), shown(now)
        if (kinds := [kind for kind, _ in new]) != (was := [kind for kind, _ in old]):
            found.append(f"code cell {number} puts out {kinds or 'nothing'}, committed is {was or 'nothing'}")
        elif MEASURED not in now.metadata.get("tags", ()):
            for (_, a), (_, b) in zip(old, new, strict=True):
                if words := first_difference(a, b):
                    found.append(f"code cell {number}: {words}")
    return found


def first_difference(a, b):
    """Describe the first difference of two texts, or return "" if they have the same words and close
    numbers."""
    (words, numbers), (new_words, new_numbers) = apart(a), apart(b)
    if words != new_words:
        old, new = (NUMBER.sub("#", text).split() for text in (a, b))
        at = next(
            (i for i, (x, y) in enumerate(zip(old, new, strict=False)) if x != y), min(len(old), len(new))
        )
        cut = slice(max(0, at - 3), at + 5)
        return f"committed is “… {' '.join(old[cut])} …”, now “… {' '.join(new[cut])} …”"
    for old, new in zip(numbers, new_numbers, strict=True):
        if not close(old, new):
            return f"committed is {old}, now {new}"
    return ""


def apart(text):
    """Return the words of a text without numbers, and its numbers as written."""
    return NUMBER.sub(" # ", text).split(), NUMBER.findall(text)


def close(old, new):
    """Return whether two written numbers are the same except for rounding. Whole numbers must be equal."""
    if old == new:
        return True
    old, new = (Decimal(n.replace(",", "").replace("−", "-")) for n in (old, new))
    last = max(n.as_tuple().exponent for n in (old, new))  # the exponent: -2 for 0.52, -17 for 2.6e-16
    if last == 0:
        return False
    return abs(old - new) <= max(Decimal(10) ** last, CLOSE * max(abs(old), abs(new)))


def keep_outputs(notebook, committed):
    """Copy the outputs of the committed notebook into a generated one if both have the same code cells.

    Returns whether it did: not if a code cell was not executed. Markdown cells and tags may differ.
    """
    new, old = ([cell for cell in n.cells if cell.cell_type == "code"] for n in (notebook, committed))
    if [cell.source for cell in new] != [cell.source for cell in old]:
        return False
    if any(cell.execution_count is None for cell in old):
        return False
    for cell, executed in zip(new, old, strict=True):
        cell.outputs, cell.execution_count = executed.outputs, executed.execution_count
    notebook.metadata = committed.metadata  # includes widgets that the outputs show
    return True


def build(text, check=False, again=False):
    """Generate one lecture, and execute it if its code has changed, or with `check` or `again`.

    Returns the execution time in seconds, or None if the outputs of the committed notebook were kept.
    """
    target = LECTURES / f"{text.stem}.ipynb"
    if check:
        check_committed(text, target)
    notebook, seconds = generate(text), None
    kept = target.exists() and not (check or again)
    if not (kept and keep_outputs(notebook, nbformat.read(target, as_version=4))):
        start = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="lecture-runs-") as runs:
            execute(notebook, text.stem, runs)
        seconds = time.perf_counter() - start
    limit_colours(notebook)
    nbformat.validate(notebook)
    if check:
        for fault in claim_faults(notebook):
            print(f"{text.stem}: {fault}")
        if found := differences(nbformat.read(target, as_version=4), notebook):
            raise BuildError(
                "\n  ".join([f"{target.name} shows something else when it is executed:", *found])
            )
    else:
        refuse_faults(text.stem, notebook)
        beside = target.with_suffix(".ipynb.tmp")
        nbformat.write(notebook, beside)
        beside.rename(target)
    return seconds


def main():
    keep = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=keep)
    parser.add_argument(
        "numbers", nargs="*", metavar="NN", help="lectures to build, such as 01 (default: all)"
    )
    parser.add_argument("--check", action="store_true", help="execute a copy and compare; change nothing")
    parser.add_argument("--again", action="store_true", help="execute a lecture whose code is unchanged, too")
    arguments = parser.parse_args()
    texts = sorted((LECTURES / "text").glob("[0-9][0-9]_*.py"))
    known = [text.stem[:2] for text in texts]
    for number in arguments.numbers:
        if number not in known:
            sys.exit(f"There is no lecture {number!r}; there are: {', '.join(known)}")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    for text in texts:
        if arguments.numbers and text.stem[:2] not in arguments.numbers:
            continue
        try:
            seconds = build(text, arguments.check, arguments.again)
        except BuildError as error:
            sys.exit(str(error))
        how = "its outputs kept" if seconds is None else f"executed in {seconds:.0f} s"
        print(f"{text.stem}: {'checked' if arguments.check else 'written'}, {how}")


if __name__ == "__main__":
    main()
