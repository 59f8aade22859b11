"""Make slides of the executed lectures: python lectures/slides (or `make slides`; LECTURE=03 for one).

They are written to build/slides, with a deck per lecture and a list of decks, and need no network, because
reveal.js is next to them. Nothing is executed. The rule in deck.py decides which contents appear on a slide.
The folder is written next to build/slides and then renamed, so a failed build leaves the old one.
"""

import argparse
import base64
import re
import shutil
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

import jinja2
import nbformat
from deck import DeckError, slides_of
from markup import FORMATTER, line

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
REVEAL = Path(sys.prefix) / "slides" / "node_modules" / "reveal.js"  # installed by cluster/setup.sh slides
PICTURE = re.compile(r'src="([^":]+\.svg)"')


def deck(notebook, folder):
    """Write the slides of a lecture at `notebook`, with its drawings included."""
    slides = slides_of(nbformat.read(notebook, as_version=4), notebook.name)

    def inlined(found):
        content = base64.b64encode((folder / found[1]).read_bytes()).decode()
        return f'src="data:image/svg+xml;base64,{content}"'

    for slide in slides:
        slide.evidence = [PICTURE.sub(inlined, one) for one in slide.evidence]
        slide.notes = [PICTURE.sub(inlined, one) for one in slide.notes]
        slide.section_html = line(slide.section)
    return slides


def build(root, target, wanted=(), reveal=REVEAL):
    """Make the decks of the lectures at `root` in `target`, and return {file: number of slides}.

    wanted: numbers such as "03"; the others' decks are unchanged. Raises DeckError.
    """
    lectures = sorted((root / "lectures").glob("[0-9][0-9]_*.ipynb"))
    known = [path.stem[:2] for path in lectures]
    if unknown := [number for number in wanted if number not in known]:
        raise DeckError(f"There is no lecture {unknown[0]!r}; there are: {', '.join(known)}")
    if not (reveal / "dist" / "reveal.js").is_file():
        raise DeckError(f"reveal.js is not in {reveal}: `make slides` installs it")
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"), trim_blocks=True, undefined=jinja2.StrictUndefined
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".slides-", dir=target.parent) as place:
        new, old = Path(place, "new"), Path(place, "old")
        if target.exists():
            shutil.copytree(target, new, ignore=shutil.ignore_patterns("reveal", "static"))
        shutil.copytree(HERE / "static", new / "static")
        (new / "static" / "code.css").write_text(FORMATTER.get_style_defs(".code"))
        shutil.copy(str(files("ziamath") / "fonts" / "STIXTwoMath-Regular.ttf"), new / "static")
        for part in ("dist/reveal.js", "dist/reveal.css", "plugin/notes/notes.js", "LICENSE"):
            (new / "reveal" / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(reveal / part, new / "reveal" / part)
        decks = []
        for path in lectures:
            title = nbformat.read(path, as_version=4).cells[0].source.splitlines()[0].lstrip("# ")
            file = f"{path.stem}.html"
            if not wanted or path.stem[:2] in wanted:
                slides = deck(path, path.parent)
                text = templates.get_template("deck.html.j2").render(title=title, slides=slides)
                (new / file).write_text(text, encoding="utf-8")
            if (new / file).is_file():
                count = (new / file).read_text(encoding="utf-8").count('<div class="page">')
                decks.append({"file": file, "title": title, "slides": count})
        (new / "index.html").write_text(templates.get_template("index.html.j2").render(decks=decks))
        if target.exists():
            target.rename(old)
        new.rename(target)
    return {each["file"]: each["slides"] for each in decks}


def main():
    keep = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=keep)
    parser.add_argument("numbers", nargs="*", metavar="NN", help="lectures, such as 03 (default: all)")
    parser.add_argument("--to", type=Path, default=ROOT / "build" / "slides", help="default: build/slides")
    args = parser.parse_args()
    target = args.to.absolute()
    if target.exists() and not (target / "reveal").is_dir():
        sys.exit(f"{target} exists and holds no slides: remove it, or give another --to")
    try:
        decks = build(ROOT, target, args.numbers)
    except DeckError as error:
        sys.exit(str(error))
    for file, slides in decks.items():
        print(f"{file}: {slides} slides")
    print(f"open {target}/index.html in a browser")


if __name__ == "__main__":
    main()
