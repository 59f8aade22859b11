"""A submitted notebook, read within limits and converted to the few forms that grading supports.

All parts of the result conform to nbformat, or reading raises SubmissionError. Of outputs and metadata, only
figures and cell names are kept.
"""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from cluster.system.text import encodable, printable

from .. import limited
from ..course import SubmissionError

if TYPE_CHECKING:
    from nbformat import NotebookNode

LARGEST = 50 * 2**20  # maximum bytes of a notebook, including outputs; more would fill the memory
SMALL = 2**20  # bytes of a file that is parsed in this process; larger ones are parsed in a separate process
MOST = 2000  # maximum number of cells, forty times as many as in an assignment
LONGEST = 2 * 2**20  # maximum characters of all cells together
SEVERAL = 100  # maximum outputs searched for figures, and maximum attachments, per cell
WORD = 1000  # maximum characters of a name or a text in a cell's metadata
PICTURE = 2 * 2**20  # maximum characters of a figure
PNG = re.compile(r"iVBORw0KGgo[A-Za-z0-9+/=\s]*")
KINDS = ("code", "markdown", "raw")
ROLE = {
    *("grade_id", "grade", "solution", "task", "locked"),
    *("points", "cell_type", "checksum", "schema_version"),
}
ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
REPLACED = "characters that are in no encoding were replaced by �"


def read(path: Path) -> tuple[NotebookNode, list[str]]:
    """Return (notebook, description of changes). Raises SubmissionError, or OSError if the disk fails."""
    import nbformat

    size = path.stat().st_size
    if not size:
        raise SubmissionError("is empty (0 bytes)")
    if size > LARGEST:
        raise SubmissionError(f"has {size / 2**20:.0f} MiB; at most {LARGEST >> 20} MiB are read")
    notebook_node, changed = parse(path) if size <= SMALL else limited.call(parse, path)
    return nbformat.from_dict(notebook_node), changed


def parse(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Parse like `read`, but return plain data with only the permitted forms."""
    try:
        raw = path.read_bytes()
        text = raw.decode("utf-8-sig", errors="replace")
        return notebook(json.loads(text), "\ufffd" in text and b"\xef\xbf\xbd" not in raw)
    except RecursionError:
        raise SubmissionError("is not a notebook: its JSON is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise SubmissionError(f"is not a notebook: line {error.lineno} is not JSON ({error.msg})") from None
    except ValueError as error:  # a number with more digits than Python reads
        raise SubmissionError(f"is not a notebook: {printable(str(error))}") from None


def notebook(data: Any, replaced: bool = False) -> tuple[dict[str, Any], list[str]]:
    """Do what `parse` does, for a file's JSON. replaced: whether bytes that are not UTF-8 were replaced."""
    converted = current(data)
    cells = converted.get("cells")
    if not isinstance(cells, list) or not cells:
        raise SubmissionError("is not a notebook: it has no cells")
    if len(cells) > MOST:
        raise SubmissionError(f"has {len(cells)} cells; at most {MOST} are graded")
    ids: set[str] = set()
    new, length = [], 0
    for number, cell in enumerate(cells, 1):
        one = plain(cell, number)
        length += len(one["source"])
        if length > LONGEST:
            raise SubmissionError(f"has more than {LONGEST >> 20} MiB of text in its cells")
        one["id"] = unused(cell.get("id"), number, ids)
        text = encodable(one["source"])
        replaced = replaced or text != one["source"]
        new.append(one | {"source": text})
    whole = {"nbformat": 4, "nbformat_minor": 5, "metadata": about(converted.get("metadata")), "cells": new}
    return whole, [REPLACED] if replaced else []


def current(data: Any) -> dict[str, Any]:
    """Return the JSON of a notebook in version 4, whatever its original version."""
    version = data.get("nbformat") if isinstance(data, dict) else None
    if version == 4:
        return data
    if type(version) is not int or not 1 <= version <= 3:
        raise SubmissionError("is not a notebook: its notebook format version is missing or unknown")
    import nbformat

    try:
        return nbformat.convert(nbformat.from_dict(data), 4)
    except Exception as error:  # broken files of old versions can raise anything
        raise SubmissionError(f"is not a notebook of version {version}: {printable(str(error))}") from None


def plain(cell: Any, number: int) -> dict[str, Any]:
    """Return a cell with the parts that grading needs: type, source, role, and images pasted into text."""
    kind = cell.get("cell_type") if isinstance(cell, dict) else None
    if kind not in KINDS:
        raise SubmissionError(f"is not a notebook: cell {number} has an unknown type")
    source = cell.get("source")
    if strings(source):
        source = "".join(source)
    if not isinstance(source, str):
        raise SubmissionError(f"is not a notebook: cell {number} has no source")
    cleaned = {"cell_type": kind, "source": source, "metadata": role(cell.get("metadata"))}
    if kind == "code":
        if drawn := figures(cell.get("outputs")):
            cleaned["metadata"]["figures"] = drawn
        return cleaned | {"outputs": [], "execution_count": None}
    pasted = attachments(cell.get("attachments"))
    return cleaned | ({"attachments": pasted} if pasted else {})


def role(metadata: Any) -> dict[str, Any]:
    """Return {"nbgrader": …} from a cell's metadata, or {} if the cell has no valid name."""
    data = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    if not isinstance(data, dict) or not isinstance(name := data.get("grade_id"), str):
        return {}
    if not name or name != encodable(name) or len(name) > WORD:
        return {}
    kept = {key: data[key] for key in sorted(ROLE) if is_word(data.get(key))}
    return {"nbgrader": {key: encodable(v) if isinstance(v, str) else v for key, v in kept.items()}}


def is_word(value: Any) -> bool:
    """Return whether this is a number, or a string short enough for metadata."""
    return isinstance(value, int | float) or (isinstance(value, str) and len(value) <= WORD)


def figures(outputs: Any) -> list[str]:
    """Return the images (PNG, base64) in the outputs of a cell, in order."""
    result = []
    for output in outputs[:SEVERAL] if isinstance(outputs, list) else ():
        data = output.get("data") if isinstance(output, dict) else None
        picture = data.get("image/png") if isinstance(data, dict) else None
        picture = "".join(picture) if strings(picture) else picture
        if isinstance(picture, str) and len(picture) <= PICTURE and PNG.fullmatch(picture):
            result.append(picture)
    return result


def strings(value: Any) -> TypeGuard[list[str]]:
    """Return whether this is a list of strings, which nbformat also permits for text."""
    return isinstance(value, list) and all(isinstance(line, str) for line in value)


def handed_in_figures(path: Path) -> dict[str, list[str]]:
    """Return {id of a cell: its figures} of a submitted notebook; {} if it is unreadable."""
    try:
        notebook_node, _ = read(path)
    except (SubmissionError, OSError):
        return {}
    return {
        cell["id"]: cell.metadata["figures"] for cell in notebook_node.cells if "figures" in cell.metadata
    }


def attachments(found: Any) -> dict[str, dict[str, str]]:
    """Return {name: {kind: base64}} for the valid images attached to a text cell."""
    kept = {}
    for name, kinds in itertools.islice(found.items(), SEVERAL) if isinstance(found, dict) else ():
        data = kinds if isinstance(kinds, dict) else {}
        texts = {kind: text for kind, text in data.items() if isinstance(text, str) and len(kind) <= WORD}
        texts = {kind: text for kind, text in texts.items() if kind.startswith("image/")}
        if texts and len(name) <= WORD:
            kept[encodable(name)] = {encodable(k): encodable(texts[k]) for k in list(texts)[:SEVERAL]}
    return kept


def unused(wanted: Any, number: int, ids: set[str]) -> str:
    """Return a cell's id, or a new one if it is invalid or already in `ids`."""
    cell_id = wanted if isinstance(wanted, str) and ID.fullmatch(wanted) else f"cell-{number}"
    while cell_id in ids:
        number += MOST
        cell_id = f"cell-{number}"
    ids.add(cell_id)
    return cell_id


def about(metadata: Any) -> dict[str, Any]:
    """Return {"kernelspec": …} from a notebook's metadata, or {} if nbformat would not accept it."""
    kernel = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    named: dict[str, Any] = {}
    if isinstance(kernel, dict):
        named = {key: kernel.get(key) for key in ("name", "display_name")}
    if not named or not all(isinstance(word, str) and is_word(word) for word in named.values()):
        return {}
    return {"kernelspec": {key: encodable(word) for key, word in named.items()}}
