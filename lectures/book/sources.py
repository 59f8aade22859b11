"""The book's pages as input for Sphinx: lectures, assignments, the claims table, the contents.

The folder created by `assemble` has the repository's layout, so links between its files stay valid. If a link
leads to a file that is not a page, the file is included if students may have it; otherwise only the link's
text is kept.
"""

import json
import re
import shutil
from html import escape
from pathlib import Path

import nbformat
from mdit_py_plugins.anchors.index import slugify
from nbformat.v4 import new_markdown_cell

from cluster.staff import guesses
from cluster.staff.release.student_files import chosen

HERE = Path(__file__).parent
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^()\s]+)\)")
DESCRIPTION = re.compile(r"\*\(Figure(?P<words>.*?)\)\*", re.DOTALL)
GLOSSARY = Path("lectures", "GLOSSARY.md")
GUIDE = Path("cluster", "staff", "GUIDE.md")  # for instructors, so only on request
WIDE = "---\nhtml_theme.sidebar_secondary.remove: true\n---\n\n"  # no contents next to a wide table
LEARNED = re.compile(r"^## What (was|we have) learned$", re.MULTILINE)
EXPLORERS = {  # {lecture: the name of its widget in static/explore.js}
    "01": "roofline",
    "02": "momentum",
    "03": "block",
    "04": "pipeline",
    "05": "amdahl",
    "06": "allreduce",
    "07": "scaling",
    "08": "noise",
    "09": "staleness",
    "10": "checkpoints",
    "11": "sharding",
}
MEASURED = re.compile(r"^peak (?P<peak>\d+) GFLOP/s, bandwidth (?P<bandwidth>\d+) GB/s", re.MULTILINE)
HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)


class BookError(Exception):
    """A page that cannot be included in the book; the message names the page and what to do."""


def assemble(root, target, staff=False):
    """Write the sources of the book to the folder `target`; return the pages' paths in reading order.

    staff: include the instructor's guide. Such a book names mutants and rubrics and is not for students.
    """
    lectures = sorted((root / "lectures").glob("[0-9][0-9]_*.ipynb"))
    assignments = sorted((root / "exercises").glob("[0-9][0-9]_*/*.ipynb"))
    if not lectures:
        raise BookError(f"{root / 'lectures'} holds no lecture: run `make lectures` first")
    ledger = root / "lectures" / "CLAIMS.md"
    pages = [*lectures, *assignments, root / GLOSSARY, ledger, *([root / GUIDE] if staff else [])]
    shutil.copytree(HERE / "static", target / "static")
    for file in ("conf.py", "mathml.py"):
        shutil.copy(HERE / file, target)
    headings = {page: set(HEADING.findall(words(page))) for page in pages}
    free = set(chosen(root))
    for page in pages:
        write(page, root, target, headings, free)
    take(["lectures/figures/loop.svg"], root / "index.md", root, target)
    more = f"\n```{{toctree}}\n:hidden:\n:caption: For instructors\n\n{GUIDE}\n```\n" if staff else ""
    (target / "index.md").write_text(contents(root, lectures, assignments, ledger) + more)
    return [page.relative_to(root) for page in pages]


def write(page, root, target, headings, free):
    """Write one page of the book, with its links adapted, and copy its images."""

    def mend(text):
        take(PICTURE.findall(text), page, root, target)
        return LINK.sub(lambda found: link(found, page, root, target, headings, free), text)

    place = target / page.relative_to(root)
    place.parent.mkdir(parents=True, exist_ok=True)
    if page in (root / GLOSSARY, root / GUIDE):
        place.write_text(mend(page.read_text()))
    elif page.suffix == ".md":
        table = re.sub(r"^\|", "{.ledger}\n|", mend(page.read_text()), count=1, flags=re.MULTILINE)
        place.write_text(WIDE + table)
    else:
        nbformat.write(prepared(page, mend), place)


def words(page):
    """Return a page's Markdown: the whole file, or a notebook's Markdown cells."""
    if page.suffix == ".md":
        return page.read_text()
    return "\n\n".join(c.source for c in nbformat.read(page, 4).cells if c.cell_type == "markdown")


def prepared(page, mend):
    """Return the notebook with its links adapted, an alternative text for each image, and no grading
    metadata."""
    notebook = nbformat.read(page, as_version=4)
    notebook.metadata.pop("widgets", None)  # Sphinx would show them as metadata of the page
    for index, cell in enumerate(notebook.cells):
        for data in (
            output["data"] for output in cell.get("outputs", ()) if "text/html" in output.get("data", ())
        ):
            # a table's corner is not a heading
            data["text/html"] = data["text/html"].replace("<th></th>", "<td></td>")
        if cell.cell_type == "markdown":
            if page.parent.name == "lectures" and (law := EXPLORERS.get(page.name[:2])):
                explorer = f'<div class="explorer" data-law="{law}"{machine(notebook.cells)}></div>'
                cell.source = LEARNED.sub(lambda found, e=explorer: f"{e}\n\n{found.group()}", cell.source)
            cell.source = DESCRIPTION.sub(lambda found: "{.described}\n" + found.group(), mend(cell.source))
        elif any(kind.startswith("image/") for o in cell.get("outputs", ()) for kind in o.get("data", ())):
            cell.metadata["mystnb"] = {"image": {"alt": alternative(notebook.cells, index, page)}}
    notebook.cells = with_guesses(notebook.cells)
    return notebook


def machine(cells):
    """Return the measured roofline of a lecture's machine, as an attribute of an interactive widget; "" if
    there is none."""
    found = next(filter(None, (MEASURED.search(guesses.printed(cell)) for cell in cells)), None)
    if not found:
        return ""
    facts = {rate: 1e9 * float(value) for rate, value in found.groupdict().items()}
    facts["name"] = "this page's CPU"
    return f' data-machine="{escape(json.dumps(facts))}"'


def with_guesses(cells):
    """Return the cells with a marker below each that asks for a guess and above each that prints the result.

    static/guess.js turns the first marker into a form, and hides the result until the form is filled in.
    Without JavaScript the markers are empty, and everything is visible.
    """
    answered, asked_at, marked = guesses.answers(cells), {}, []
    for index, cell in enumerate(cells):
        if cell.cell_type == "code":
            for question in guesses.questions(cell.source, answered):
                asked_at.setdefault(question, index)
    for index, cell in enumerate(cells):
        asked = [question for question, at in asked_at.items() if at == index]
        found = [question for question in asked_at if answered[question][1] == index]
        here = [question for question in asked if question in found]  # asked and answered by one cell
        if found:
            marked.append(mark("guess-answers", found, here))
        marked.append(cell)
        if later := [question for question in asked if question not in here]:
            marked.append(mark("guess-form", later))
    return marked


def mark(kind, asked, here=()):
    """Return a Markdown cell that contains an empty element with questions."""
    data = f'data-asked="{escape(json.dumps(asked))}" data-here="{escape(json.dumps(list(here)))}"'
    return new_markdown_cell(f'<div class="{kind}" {data}></div>')


def alternative(cells, index, page):
    """Return the first sentence of the description below the figure of cell `index`, as plain text."""
    for cell in cells[index + 1 :]:
        if any("image/png" in output.get("data", {}) for output in cell.get("outputs", ())):
            break
        if cell.cell_type == "markdown" and (found := DESCRIPTION.search(cell.source)):
            text = re.sub(r"[`*$\\]", "", " ".join(found["words"].split())).lstrip(":, ")
            first, _, rest = text.partition(". ")
            return f"Figure: {first}." + (" The text below describes it further." if rest else "")
    source = cells[index].source.splitlines()
    raise BookError(
        f"{page.name}: no description follows the figure of the cell that begins {source[0]!r}; write one "
        "below it, *(Figure: what there is to see)*"
    )


def link(found, page, root, target, headings, free):
    """Return a link for the book: to a page, to a copied file, or only its text."""
    text, address = found.groups()
    if re.match(r"[a-z]+:|#", address):
        return found.group()
    path, _, anchor = address.partition("#")
    there = (page.parent / path).resolve()
    if there.is_dir() and (notebook := next(iter(sorted(there.glob("*.ipynb"))), None)):
        there, path = notebook, f"{path.rstrip('/')}/{notebook.name}"
    if there in headings:
        if not anchor and text in headings[there]:
            anchor = slugify(text)
        return f"[{text}]({path}{'#' + anchor if anchor else ''})"
    if there in free and not there.is_dir():
        take([path], page, root, target)
        return f"[{text}]({path})"
    return text


def take(paths, page, root, target):
    """Copy files that a page names, by paths relative to it, to the same place in the book."""
    for path in paths:
        source = (page.parent / path).resolve()
        if re.match(r"[a-z]+:", path) or not source.is_relative_to(root):
            continue
        place = target / source.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, place)


def contents(root, lectures, assignments, ledger):
    """Write the first page, from index.md next to this file, with a list of all pages, and the tree of
    contents."""
    entries = {"lectures": [], "assignments": []}
    trees = {"lectures": [], "assignments": []}
    for kind, pages in (("lectures", lectures), ("assignments", assignments)):
        for page in pages:
            text, path = words(page), page.relative_to(root)
            title = HEADING.search(text).group(1)
            found = re.search(r"^\*\*([^*]+\?)\*\*\s*$", text, re.MULTILINE)
            question = f"  \n  {' '.join(found[1].split())}" if found else ""  # the title may have two lines
            entries[kind].append(f"- [{title}]({path}){question}")
            trees[kind].append(str(path))
    page = (HERE / "index.md").read_text()
    for kind in entries:
        page = page.replace(f"<!-- {kind} -->", "\n".join(entries[kind]))
        page = page.replace(f"<!-- tree of {kind} -->", "\n".join(trees[kind]))
    return page.replace("<!-- ledger -->", str(ledger.relative_to(root)))
