"""The rule that makes a deck of slides of an executed lecture. Nothing is marked up by hand.

    a heading              begins a slide; of each paragraph its bold sentences, or its first one, stand on it
    a formula, a list, a table in the prose   stand on it as they are; an item gives its first sentence
    a figure, a table      has a slide of its own, under the first sentence that follows it: what it shows
    a function             of at most CODE_LINES lines has a slide; all other code goes to the notes, folded
    `guess`                is a poll; the numbers that `compare` prints are the slide after it
    what is left           all prose, each figure's description, folded code and output: the speaker's notes

A lecture of 90 minutes has 25 to 40 slides. Where there would be more than MOST, the lightest go to the notes of
the slide before them: printed lines first, then functions, tables, drawings of the prose, and polls last. A cell
whose metadata hold `slideshow: {slide_type: skip}` or `notes`, as Jupyter's own slide shows have it, goes there
as well. What comes under *Further* is not taught, and has no slides.
"""

import ast
import re
from dataclasses import dataclass, field

from markup import blocks, code, folded, html, line, printed, sentences, table

FEWEST, MOST = 25, 38  # the title of a deck's own list and a late addition may bring it to 40
CODE_LINES = 22
POINTS, WORDS = 6, 110  # of one slide's text
FEW_WORDS = 45  # a heading with so few shares the slide of what follows it
POLL_WORDS = 60
ASKED = re.compile(r"\b(guess|predict|question)", re.IGNORECASE)
FOUND = re.compile(r"^(?P<question>.*): (?P<value>[^:]*); you wrote down no guess$", re.MULTILINE)
PICTURE = re.compile(r"!\[(?P<alt>[^\]]*)\]\((?P<path>[^()\s]+)\)")
DESCRIPTION = re.compile(r"^\*\(Figure(?P<words>.*)\)\*$", re.DOTALL)
WEIGHTS = {"printed": 1, "code": 2, "table": 3, "text": 4, "poll": 6, "figure": 7, "section": 9, "fixed": 99}


class DeckError(Exception):
    """A lecture that makes no deck; the message says why and what to do."""


@dataclass
class Slide:
    """One slide: its title and text as HTML, what it shows, and the speaker's notes."""

    kind: str  # a key of WEIGHTS
    section: str = ""  # the heading under which it stands, above its title
    title: str = ""  # HTML within a line
    points: list[str] = field(default_factory=list)  # HTML, a block each
    evidence: list[str] = field(default_factory=list)  # HTML: figures, tables, code
    notes: list[str] = field(default_factory=list)  # HTML
    words: int = 0  # of the points
    layout: str = ""  # a class of the style sheet: title, poll, reveal
    follows: "Slide | None" = None  # a reveal: its poll, without which it does not stand


def slides_of(notebook, name="the lecture", most=MOST):
    """The slides of an executed lecture, in order. Raises DeckError where there are too few or too many."""
    slides = Maker(notebook).slides()
    slides = fold(merge(slides), most)
    if not FEWEST <= len(slides) <= 40:
        raise DeckError(
            f"{name} makes {len(slides)} slides, not {FEWEST} to 40: see the rule in lectures/slides/deck.py"
        )
    return slides


class Maker:
    """Walks through a notebook's cells and makes slides, before any are folded."""

    def __init__(self, notebook):
        self.cells = notebook.cells
        self.made, self.section = [], ""
        self.pending = []  # Markdown of paragraphs since the last slide: points of a slide that shows code
        self.untitled = None  # the slide that still waits for the sentence that says what it shows
        self.prompt = []  # sentences that ask for a guess
        self.answers = self.found()
        self.taken = set()  # cells whose figure or table a reveal has shown

    def found(self):
        """{question: (value, index of the cell that compares)}"""
        answers = {}
        for index, cell in enumerate(self.cells):
            for match in FOUND.finditer(stream(cell)):
                answers[match["question"]] = (match["value"].replace("inf", "∞"), index)
        return answers

    def slides(self):
        for index, cell in enumerate(self.cells):
            hidden = cell.metadata.get("slideshow", {}).get("slide_type") in ("skip", "notes")
            if cell.cell_type == "markdown":
                taught, *further = re.split(r"(?m)^## Further$", cell.source)
                if hidden:
                    self.note(html(taught))
                else:
                    self.prose(taught, index)
                if further:
                    break
            elif hidden:
                self.note(folded("Code", code(cell.source)))
            else:
                self.code(cell, index)
        return self.made

    # --- prose

    def prose(self, text, index):
        inside = 0  # an answer that a lecture folds
        parts = blocks(text)
        for number, (kind, source) in enumerate(parts):
            after = parts[number + 1][0] if number + 1 < len(parts) else None
            if kind == "html" or inside:
                inside += source.count("<details") - source.count("</details")
                self.note(re.sub(r"</?(details|summary)>", " ", source) if kind == "html" else html(source))
            elif kind == "heading":
                self.heading(source)
            elif kind == "paragraph" and DESCRIPTION.match(source):
                self.note(f'<div class="described">{html(source)}</div>')
            elif kind == "paragraph" and (picture := PICTURE.search(source)):
                self.picture(picture)
            elif kind == "paragraph":
                self.paragraph(source, after)
            else:
                self.block(kind, source)

    def heading(self, source):
        words = source.lstrip("# ").strip()
        self.pending, self.untitled = [], None
        if source.startswith("# "):
            self.add(Slide("fixed", "", line(words), layout="title"))
        else:
            under = "" if source.startswith("## ") else self.section
            self.section = words if source.startswith("## ") else self.section
            learned = words.startswith("What") and "learned" in words
            self.add(Slide("fixed" if learned else "section", under, line(words)))

    def paragraph(self, source, after):
        """A paragraph: its sentences that matter to the slide, all of it to the notes."""
        said = sentences(source)
        asking = [s for s in said if ASKED.search(s)]
        self.prompt += asking
        if self.untitled is not None:
            title = next((s for s in said if s not in asking), None)
            if title and not title.endswith(":"):
                self.untitled.title, self.untitled = line(shorter(title)), None
                self.note(html(source))
                self.pending = []
                return
        self.note(html(source))
        chosen = [s for s in said if "**" in s and s not in asking][:2]
        if after in ("formula", "list", "table") and said[-1] not in chosen:
            chosen.append(said[-1])
        elif not chosen:
            chosen = [s for s in said[:1] if s not in asking]
        question = source.startswith("**Question")
        if question:
            chosen = said
        for sentence in chosen:
            self.pending.append(sentence)
            self.point(f"<p>{line(sentence)}</p>", len(sentence.split()), question)

    def block(self, kind, source):
        """A formula, list, table or code of the prose: it stands on a slide."""
        self.untitled = None
        if kind == "list":
            source, whole = first_sentences(source), source
            self.note(html(whole))
        self.point(html(source), {"formula": 20, "table": 40}.get(kind, len(source.split())), True)

    def point(self, markup, words, needed=False):
        """Put a piece of text onto the slide that stands open; where there is none, only if it is `needed`."""
        last = self.made[-1] if self.made else None
        is_open = last and last.kind in ("section", "text", "fixed") and not last.layout.startswith("re")
        if is_open and (needed or len(last.points) < POINTS) and last.words + words <= WORDS:
            last.points.append(markup)
            last.words += words
        elif needed:
            lead = [f"<p>{line(s)}</p>" for s in self.pending[-1:] if f"<p>{line(s)}</p>" != markup]
            slide = Slide("text", self.section, "", [markup], words=words)
            if lead and not is_open:
                slide.points, slide.words = [*lead, markup], words + len(self.pending[-1].split())
            self.add(slide)

    def picture(self, found):
        """A drawing that no cell computes."""
        alt = " ".join(found["alt"].split())
        first = sentences(alt)[0]
        slide = Slide("figure", self.section, line(shorter(self.pending[-1])) if self.pending else "")
        slide.evidence.append(picture(found["path"], first))
        slide.notes.append(f'<div class="described"><p>{html(alt)}</p></div>')
        self.add(slide)

    # --- cells

    def code(self, cell, index):
        polled = self.poll(cell, index)
        if index in self.taken:
            return self.note(folded("Code", code(cell.source)))
        slide = self.shown(cell, index)
        source = definitions(cell.source)
        if source and not (slide and slide.kind == "figure"):
            shown = Slide("code", self.section, self.lead(source), evidence=[code(source)])
            if source.strip() != cell.source.strip():
                shown.notes.append(folded("The whole cell", code(cell.source)))
            if not polled:
                self.add(shown)
        elif cell.source.strip():
            self.note(folded("Code", code(cell.source)))
        if slide:
            self.add(slide)
            self.untitled = slide
        self.pending = []
        return None

    def lead(self, source):
        """What a slide with a function says above it."""
        if self.pending:
            return line(shorter(self.pending[-1].rstrip(":")))
        function = ast.parse(source).body[0]
        words = ast.get_docstring(function) or f"`{function.name}`"
        return line(words.splitlines()[0])

    def shown(self, cell, index):
        """The slide of what a cell puts out; None for nothing."""
        figures, tables = outputs(cell, self.cells, index)
        text = FOUND.sub("", stream(cell)).strip("\n")
        if figures:
            slide = Slide("figure", self.section, evidence=figures[:2])
        elif tables:
            slide = Slide("table", self.section, evidence=tables[:2])
        elif text and len(text.splitlines()) <= 14:
            return Slide("printed", self.section, evidence=[printed(text)])
        else:
            return None
        if text:
            slide.notes.append(printed(text))
        return slide

    def poll(self, cell, index):
        """The slides of a cell that asks: the questions, then what was found. True if there are any."""
        asked = [q for q in questions(cell.source, self.answers) if q in self.answers]
        prompt, self.prompt = self.prompt, []
        if not asked:
            return False
        kept, words = [], 0
        for sentence in prompt:
            words += len(sentence.split())
            if words <= POLL_WORDS:
                kept.append(f"<p>{line(sentence)}</p>")
        poll = Slide("poll", self.section, "Guess", kept, layout="poll")
        poll.evidence.append(fields(asked))
        reveal = Slide("poll", self.section, "", layout="reveal-numbers", follows=poll)
        reveal.points.append(numbers(asked, self.answers))
        self.add(poll)
        where = {self.answers[q][1] for q in asked}
        if len(where) == 1 and (at := where.pop()) - index <= 2 and not self.between(index, at):
            shown = self.shown(self.cells[at], at)
            self.taken.add(at)
            if shown:
                reveal.evidence, reveal.notes = shown.evidence[:1], shown.notes
        self.add(reveal)
        self.untitled = reveal
        self.pending = []
        return True

    def between(self, first, last):
        """Do other cells that show something, or a heading, lie between two cells?"""
        for index in range(first + 1, last):
            cell = self.cells[index]
            if cell.cell_type == "markdown":
                if re.search(r"(?m)^#", cell.source):
                    return True
            elif any(outputs(cell, self.cells, index)):
                return True
        return first != last and bool(any(outputs(self.cells[first], self.cells, first)))

    def add(self, slide):
        if not slide.layout:
            self.untitled = None
        self.made.append(slide)

    def note(self, markup):
        if self.made:
            self.made[-1].notes.append(markup)


def merge(slides):
    """A heading with few words shares the slide of the figure, table or code that follows it."""
    merged = []
    for slide in slides:
        last = merged[-1] if merged else None
        few = last and last.kind == "section" and last.words <= FEW_WORDS and not slide.layout
        if few and slide.kind in ("figure", "table", "code") and not any("<math" in p for p in last.points):
            points = [f"<p>{slide.title}</p>"] if slide.title else last.points
            if slide.title and slide.kind == "code":
                points = last.points
            slide.points, slide.title, slide.section = points, last.title, last.section
            slide.notes = last.notes + slide.notes
            slide.kind = "section" if slide.kind == "figure" else slide.kind
            merged[-1] = slide
        elif few and slide.kind == "text" and last.words + slide.words <= WORDS:
            last.points += slide.points
            last.notes += slide.notes
            last.words += slide.words
        else:
            merged.append(slide)
    return merged


def fold(slides, most):
    """At most so many slides: the lightest become notes of the slide before them, the last ones first."""
    slides = [s for s in slides if s.kind != "printed" or s.evidence]
    while len(slides) > most:
        first = min(slides[1:], key=lambda s: (WEIGHTS[s.kind], -slides.index(s)))
        if WEIGHTS[first.kind] >= WEIGHTS["section"]:
            break
        gone = [s for s in slides if s is first or s.follows is first or first.follows is s]
        for slide in gone:
            before = slides[slides.index(slide) - 1]
            said = [f"<p>{slide.title}</p>"] if slide.title else []
            before.notes += [*said, *slide.points, *slide.evidence, *slide.notes]
            slides.remove(slide)
    return slides


# --- parts of a cell


def stream(cell):
    """What a code cell printed."""
    return "".join(o.text for o in cell.get("outputs", ()) if o.output_type == "stream")


def outputs(cell, cells, index):
    """(figures, tables) of a code cell as HTML."""
    figures, tables = [], []
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        if "image/png" in data:
            address = "data:image/png;base64," + "".join(data["image/png"].split())
            figures.append(picture(address, described(cells, index)))
        elif "text/html" in data and "<table" in data["text/html"]:
            tables.append(f'<div class="table" tabindex="0">{table(data["text/html"])}</div>')
    return figures, tables


def described(cells, index):
    """The first sentence of the description that follows the figure of cell `index`."""
    for cell in cells[index + 1 :]:
        if cell.cell_type == "markdown":
            for _, source in blocks(cell.source):
                if found := DESCRIPTION.match(source):
                    words = sentences(re.sub(r"[`*$\\]", "", found["words"]).lstrip(":, "))
                    return words[0]
    return ""


def picture(address, alt):
    words = alt.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return f'<div class="figure"><img src="{address}" alt="{words}"></div>'


def definitions(source):
    """The first functions and classes of a cell, up to CODE_LINES lines; "" where there are none or longer."""
    try:
        body = ast.parse(source).body
    except SyntaxError:  # IPython's own lines
        return ""
    lines, taken = source.splitlines(), []
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            start = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
            part = lines[start : node.end_lineno]
            if len(taken) + len(part) > CODE_LINES or re.search(r"\b(plt|axe?s?)\.", "\n".join(part)):
                break
            taken += [*([""] if taken else []), *part]
    return "\n".join(taken)


def questions(source, answers):
    """What the cell's `guess` asks, in order; a question put together from pieces is found by its answers."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "guess" and node.args:
            asked = node.args[0]
            if isinstance(asked, ast.Constant):
                found.append(asked.value)
            elif isinstance(asked, ast.JoinedStr):
                pattern = "".join(
                    re.escape(v.value) if isinstance(v, ast.Constant) else ".+" for v in asked.values
                )
                found += [q for q in answers if re.fullmatch(pattern, q)]
    return list(dict.fromkeys(found))


def fields(asked):
    """The questions of a poll, each with a field for what the class says."""
    rows = [
        f'<li><label><span>{line(q)}</span><input type="text" inputmode="decimal" data-asked="{attribute(q)}" '
        f'placeholder="the class says" autocomplete="off"></label></li>'
        for q in asked
    ]
    return f'<ul class="asked">{"".join(rows)}</ul>'


def numbers(asked, answers):
    """What was found, beside what the class said."""
    rows = [
        f'<div><dt>{line(q)}</dt><dd><output class="said" data-asked="{attribute(q)}"></output>'
        f"<strong>{answers[q][0]}</strong></dd></div>"
        for q in asked
    ]
    return f'<dl class="found">{"".join(rows)}</dl>'


def attribute(text):
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def first_sentences(source):
    """A Markdown list with the first sentence of each item."""
    items = re.split(r"(?m)^(?=(?:\d+\.|[-*]) )", source)
    kept = []
    for item in filter(str.strip, items):
        mark, _, text = item.strip().partition(" ")
        kept.append(f"{mark} {sentences(text)[0]}")
    return "\n".join(kept)


def shorter(sentence, words=32):
    """A sentence as a title: what follows a semicolon or a colon is left to the notes where it is long."""
    if len(sentence.split()) <= words:
        return sentence
    first = re.split(r"(?<=\w)[;:] ", sentence)[0]
    whole = first.count("$") % 2 == 0 and first.count("(") == first.count(")")
    return f"{first}." if whole and first.count("**") % 2 == 0 and first.count("`") % 2 == 0 else sentence
