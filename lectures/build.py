"""Build the lectures: lectures/text/NN_topic.py (jupytext percent) -> lectures/NN_topic.ipynb, executed.

    python lectures/build.py            every lecture
    python lectures/build.py 01 04      these only
    python lectures/build.py 01 --check execute a copy; leave the committed notebook alone, and fail when its
                                        sources are not those of the text

A cell that raises, or that writes to stderr, fails the build with its source. The notebook is written beside
and then renamed, so a failed build leaves the old one as it was. What changes from run to run without meaning
(time stamps, versions, random cell ids) is left out.
"""

import argparse
import hashlib
import os
import pathlib
import sys
import time

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

LECTURES = pathlib.Path(__file__).parent
KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class BuildError(Exception):
    """A lecture that cannot be built; the message says which cell and why."""


def generate(text):
    """The notebook of a text twin, without outputs. A cell's id is the hash of its source, so it stays."""
    notebook = jupytext.read(text, fmt="py:percent")
    notebook.metadata = nbformat.from_dict(KERNEL)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    seen = {}
    for cell in notebook.cells:
        digest = hashlib.sha256(cell.source.encode()).hexdigest()[:8]
        seen[digest] = seen.get(digest, 0) + 1
        cell.id = f"{digest}-{seen[digest]}"
    return notebook


def execute(notebook, name, timeout=600):
    """Run the notebook in lectures/, in place, with a progress line; raise BuildError at a bad cell."""
    total = sum(cell.cell_type == "code" for cell in notebook.cells)
    done = 0

    def progress(cell, cell_index, execute_reply=None):
        nonlocal done
        done += 1
        if sys.stdout.isatty():
            print(f"\r{name}: cell {done} of {total}", end="\n" if done == total else "", flush=True)

    client = NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name="python3",
        record_timing=False,
        extra_arguments=["--IPKernelApp.log_level=40"],  # its warnings concern the transport, not the lecture
        resources={"metadata": {"path": str(LECTURES)}},
        on_cell_executed=progress,
    )
    try:
        client.execute()
    except CellExecutionError as error:
        raise BuildError(f"{name}: {error}") from None
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "stream" and output.name == "stderr":
                raise BuildError(f"{name}: this cell writes to stderr\n{cell.source}\n---\n{output.text}")
        cell.metadata.pop("execution", None)


def sources(notebook):
    """What must be equal in a notebook and its text: kinds and sources of the cells."""
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def check_committed(text, target):
    """Raise BuildError when the committed notebook is missing, is not of this text, or has no outputs."""
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


def build(text, check):
    """Generate and execute one lecture; returns the seconds its execution took."""
    target = LECTURES / f"{text.stem}.ipynb"
    if check:
        check_committed(text, target)
    notebook = generate(text)
    start = time.perf_counter()
    execute(notebook, text.stem)
    seconds = time.perf_counter() - start
    nbformat.validate(notebook)
    if not check:
        beside = target.with_suffix(".ipynb.tmp")
        nbformat.write(notebook, beside)
        beside.rename(target)
    return seconds


def main():
    keep = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=keep)
    parser.add_argument(
        "numbers", nargs="*", metavar="NN", help="lectures to build, as 01; all when left out"
    )
    parser.add_argument("--check", action="store_true", help="execute a copy and compare; change nothing")
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
            seconds = build(text, arguments.check)
        except BuildError as error:
            sys.exit(str(error))
        print(f"{text.stem}: {'checked' if arguments.check else 'written'}, executed in {seconds:.0f} s")


if __name__ == "__main__":
    main()
