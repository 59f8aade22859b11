"""The rule that turns an executed lecture into a deck of slides. It needs no manual mark-up.

    a heading              begins a slide; of each paragraph its bold sentences, or its first, and more where
                           there is room
    a formula, a list, a table in the prose   are on the slide; of a list's item, the first sentence
    a figure, a table      has a separate slide, whose title is the first sentence after it
    a function             of at most CODE_LINES lines has a slide; all other code goes to the notes, folded
    `guess`                is a poll; the next slide shows the numbers that `compare` prints
    everything else        is in the notes: all prose, each figure's description, code, printed lines

A lecture of 90 minutes has 25 to 40 slides. If it would have more than MOST slides or POLLS polls, cells are
moved to the notes one after another: first the later functions and tables of each section, then the first
ones. A cell whose metadata contain `slideshow: {slide_type: skip}` or `notes`, as in Jupyter's own slide
shows, is moved there as well. The section *Further* is not taught, and has no slides.
"""

import ast
import re
from dataclasses import dataclass, field

from markup import blocks, code, folded, html, line, printed, sentences, table

from cluster.staff import guesses

FEWEST, MOST, POLLS = 25, 38, 8
CODE_LINES = 22
POINTS, WORDS = 6, 110  # maximum points and words on one slide
FULL = 70  # number of words up to which a text slide gets further sentences of its paragraphs
FEW_WORDS = 45  # a heading with at most this many words shares the next slide
POLL_WORDS = 60
ROWS = 13  # maximum rows of two tables on one slide
ASKED = re.compile(r"\b(guess|predict|question)", re.IGNORECASE)
ASKS = re.compile(r"\b(guess|predict|questions?)\b", re.IGNORECASE)  # "predicted" does not ask
PICTURE = re.compile(r"!\[(?P<alt>[^\]]*)\]\((?P<path>[^()\s]+)\)")
DESCRIPTION = re.compile(r"^\*\(Figure(?P<words>.*)\)\*$", re.DOTALL)
NO_TITLE = re.compile(r"In JupyterLab|Before: |Next: |.*[:,]$|.*(so|and|or|for|is|know)$")
# Slides with the least weight are moved to the notes first; each further one of its kind in the same section
# counts LESS less.
WEIGHTS, LESS = {"code": 4.3, "table": 4.2, "poll": 6}, 0.8


class DeckError(Exception):
    """A lecture that cannot be turned into a deck; the message contains the reason and what to do."""


@dataclass
class Point:
    """A block of text: HTML, or the sentences of a paragraph in Markdown, and which of them are on the
    slide."""

    words: int
    markup: str = ""
    sentences: list[str] = field(default_factory=list)
    chosen: list[int] = field(default_factory=list)

    def html(self):
        return self.markup or f"<p>{line(' '.join(self.sentences[i] for i in sorted(self.chosen)))}</p>"


@dataclass
class Slide:
    """One slide: its title and text as HTML, its figures, tables or code, and the speaker's notes."""

    kind: str  # fixed, section, text, figure, table, code or poll
    section: str = ""  # the section's heading, shown above its title
    title: str = ""  # inline HTML
    body: list[Point] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)  # HTML: figures, tables, code
    notes: list[str] = field(default_factory=list)  # HTML
    layout: str = ""  # a CSS class: title, poll, reveal-numbers
    cell: int | None = None  # the code cell that it shows; without one it cannot be moved to the notes
    lead: str = ""  # HTML of a title, unless a more informative sentence follows

    @property
    def words(self):
        return sum(point.words for point in self.body)

    @property
    def points(self):
        return [point.html() for point in self.body]


def slides_of(notebook, name="the lecture"):
    """Return the slides of an executed lecture, in order. Raises DeckError if there are too few or too
    many."""
    notes = set()  # code cells without a slide
    while True:
        slides = merge(Maker(notebook, notes).slides())
        polls = [s for s in slides if s.layout == "poll"]
        if len(slides) > MOST or len(polls) > POLLS:
            weights = weighed(polls if len(polls) > POLLS else slides)
            if weights:
                notes.add(min(weights)[2])
                continue
        break
    if not FEWEST <= len(slides) <= 40:
        raise DeckError(
            f"{name} makes {len(slides)} slides, not {FEWEST} to 40: see the rule in lectures/slides/deck.py"
        )
    return [filled(slide) for slide in slides]


def weighed(slides):
    """Return [(weight, minus the position, cell)] of the slides that may be moved to the notes."""
    seen, found = {}, []
    for number, slide in enumerate(slides):
        if slide.cell is None or slide.kind not in WEIGHTS or slide.layout == "reveal-numbers":
            continue
        at = (slide.section.split(" ")[0], slide.kind)
        found.append((WEIGHTS[slide.kind] - LESS * seen.get(at, 0), -number, slide.cell))
        seen[at] = seen.get(at, 0) + 1
    return found


def filled(slide):
    """Fill a slide of text with more sentences of its paragraphs, while there is space, and give each
    figure a title."""
    slide.title = re.sub(":$", ".", slide.title or slide.lead)
    if slide.layout or slide.evidence:
        return slide
    grown = True
    while grown:
        grown = False
        for point in slide.body:
            following = max(point.chosen, default=-1) + 1
            if not point.sentences or following >= len(point.sentences):
                continue
            words = len(point.sentences[following].split())
            if point.sentences[following].endswith(":"):
                continue
            if slide.words + words <= FULL and not ASKED.search(point.sentences[following]):
                point.chosen.append(following)
                point.words += words
                grown = True
    if slide.body and slide.points[-1].endswith(":</p>"):  # what the colon announces is in the notes
        slide.body[-1] = Point(slide.body[-1].words, slide.points[-1].removesuffix(":</p>") + ".</p>")
    return slide


class Maker:
    """Turn a notebook's cells into slides, before any slides are moved to the notes."""

    def __init__(self, notebook, notes=()):
        self.cells, self.noted = notebook.cells, notes
        self.made, self.section = [], ""
        self.pending = []  # Markdown of paragraphs since the last slide, used as points on a slide with code
        self.untitled = None  # the slide that still needs a sentence as its title
        self.prompt = []  # for each paragraph since the last poll, the sentences that ask for a guess
        self.answers = guesses.answers(self.cells)
        self.taken = set()  # cells whose figure or table is already on a reveal slide

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
        self.pending, self.untitled, self.prompt = [], None, []
        if source.startswith("# "):
            self.add(Slide("fixed", "From Convolution to Cluster", line(words), layout="title"))
        else:
            under = "" if source.startswith("## ") else self.section
            self.section = words if source.startswith("## ") else self.section
            learned = words.startswith("What") and "learned" in words
            self.add(Slide("fixed" if learned else "section", under, line(words)))

    def paragraph(self, source, after):
        """Add a paragraph: its important sentences to the slide, all of it to the notes."""
        said = sentences(source)
        asking = [s for s in said if ASKED.search(s)]
        if asking and "**" in asking[0]:  # **Guess:** followed by the question
            asking = said[said.index(asking[0]) :]
        self.prompt += [asking] if asking else []
        self.note(html(source))
        if self.made and self.made[-1].layout == "title":
            if source.startswith("**"):  # the lecture's question
                self.made[-1].body.append(Point(len(source.split()), html(source)))
            else:
                self.add(Slide("fixed", "", "What this lecture aims at"))
                self.note(html(source))
                self.pending = said[-1:]
            return
        title = next((s for s in said if s not in asking and not NO_TITLE.match(s)), None)
        if self.untitled is not None and title:
            self.untitled.title, self.untitled, self.pending = line(shorter(title)), None, []
            return
        chosen = [i for i, s in enumerate(said) if "**" in s and s not in asking][:2]
        if after in ("formula", "list", "table"):
            last = range(len(said))[-1 if len(said[-1].split()) > 4 else -2 :]
            chosen = sorted({*chosen, *last})
        elif not chosen and said[0] not in asking:
            chosen = [0]
        if after == "list" and len(source.split()) <= 3:  # such as "We aim at"
            chosen = []
        question = source.startswith("**Question")
        if question:
            chosen = list(range(len(said)))
        if chosen:
            self.pending += [said[i] for i in chosen]
            words = sum(len(said[i].split()) for i in chosen)
            self.point(Point(words, sentences=said, chosen=chosen), question)

    def block(self, kind, source):
        """Put a formula, list, table or code block of the prose on a slide."""
        self.untitled = None
        if kind == "list":
            self.note(html(source))
            source = first_sentences(source)
        elif kind == "fence":
            found = re.fullmatch(r"(?s)```\w*\n(.*)```", source)
            return self.point(Point(30, code(found[1]) if found else html(source)), True)
        words = {"formula": 20, "table": 40}.get(kind, len(source.split()))
        return self.point(Point(words, html(source)), True)

    def point(self, point, needed=False):
        """Put text on the current slide; if there is none, make one only if the text is `needed`."""
        last = self.made[-1] if self.made else None
        is_open = last and last.kind in ("section", "text", "fixed")
        if is_open and (needed or len(last.body) < POINTS) and last.words + point.words <= WORDS:
            last.body.append(point)
        elif needed:
            slide = Slide("text", self.section, body=[point])
            if self.pending and not point.sentences and not (is_open and last.words + point.words <= WORDS):
                moved = last.body[-1] if is_open and last.body and len(last.body) > 1 else None
                if moved and moved.sentences:
                    last.body.remove(moved)
                said = self.pending[-1] if len(self.pending[-1].split()) > 4 else " ".join(self.pending[-2:])
                slide.body = [Point(len(said.split()), f"<p>{line(said)}</p>"), point]
            self.add(slide)

    def picture(self, found):
        """Add a drawing that is not computed by a cell."""
        alt = " ".join(found["alt"].split())
        slide = Slide("figure", self.section, line(shorter(self.pending[-1])) if self.pending else "")
        slide.evidence.append(picture(found["path"], sentences(alt)[0]))
        slide.notes.append(f'<div class="described">{html(alt)}</div>')
        self.add(slide)

    # --- cells

    def code(self, cell, index):
        if not self.section:  # the cells before the first section go to the notes
            return self.note(folded("Code", code(cell.source)) + printed(guesses.printed(cell)))
        polled = self.poll(cell, index)
        if index in self.taken:
            return self.note(folded("Code", code(cell.source)))
        slide = self.shown(cell, index)
        source = "" if polled or index in self.noted else definitions(cell.source)
        if slide and (slide.kind == "table" and index in self.noted):
            self.note("".join([*slide.evidence, *slide.notes]))
            slide = None
        elif slide is None and (text := guesses.FOUND.sub("", guesses.printed(cell)).strip("\n")):
            self.note(printed(text))
        if source and not slide:
            self.add(Slide("code", self.section, self.above(source), evidence=[code(source)], cell=index))
            if source.strip() != cell.source.strip():
                self.note(folded("The whole cell", code(cell.source)))
        elif cell.source.strip():
            self.note(folded("Code", code(cell.source)))
        if slide:
            self.add(slide)
            self.untitled = slide
        if slide or source:
            self.pending = []
        return None

    def above(self, source):
        """Return the text above a function on a slide."""
        if self.pending:
            return line(shorter(self.pending[-1].rstrip(":")))
        function = ast.parse(source).body[0]
        words = ast.get_docstring(function) or f"`{function.name}`"
        return line(words.splitlines()[0])

    def shown(self, cell, index):
        """Return the slide of the figures or tables in a cell's output, or None."""
        figures, tables = outputs(cell, self.cells, index)
        if not figures and not tables:
            return None
        kind = "figure" if figures else "table"
        rows = "".join(tables[:2]).count("<tr")
        most = 2 if figures or rows <= ROWS else 1
        slide = Slide(kind, self.section, evidence=(figures or tables)[:most], cell=index)
        slide.notes += [*(figures or tables)[most:], *(tables if figures else [])]
        if figures:
            slide.lead = line(shorter(described(self.cells, index)))
        elif self.pending:
            slide.lead = line(shorter(self.pending[-1]))
        if text := guesses.FOUND.sub("", guesses.printed(cell)).strip("\n"):
            slide.notes.append(printed(text))
        return slide

    def poll(self, cell, index):
        """Add the slides of a cell that asks: the questions, then the results. Returns True if there are
        any."""
        asked = guesses.questions(cell.source, self.answers)
        if not asked:
            return False
        asking = [said for said in self.prompt if any(map(ASKS.search, said))] or self.prompt
        prompt, self.prompt = [sentence for said in asking for sentence in said], []
        if index in self.noted:
            for sentence in prompt:
                self.note(f"<p>{line(sentence)}</p>")
            return False
        kept, words = [], 0
        for sentence in prompt or self.pending[-1:]:
            words += len(sentence.split())
            if words <= POLL_WORDS:
                kept.append(Point(0, f"<p>{line(sentence)}</p>"))
        poll = Slide("poll", self.section, "Guess", kept, [fields(asked)], layout="poll", cell=index)
        poll.notes.append(f"<p>{line(found_in_words(asked, self.answers))}</p>")
        reveal = Slide("poll", self.section, layout="reveal-numbers", cell=index)
        reveal.body.append(Point(0, numbers(asked, self.answers)))
        where = {self.answers[q][1] for q in asked}
        shown = at = None
        if len(where) == 1:
            at = where.pop()
            shown = self.shown(self.cells[at], at)
            if at - index <= 2 and not self.between(index, at):
                self.taken.add(at)
                text = guesses.FOUND.sub("", guesses.printed(self.cells[at])).strip("\n")
                if shown:
                    reveal.evidence, reveal.notes = shown.evidence, shown.notes
                    reveal.lead = shown.lead
                elif text and len(text.splitlines()) <= 10:
                    reveal.evidence = [printed(text)]
                elif text:
                    reveal.notes = [printed(text)]
            elif not shown:
                reveal.title = line(shorter(self.said_after(at)))
        self.add(poll)
        self.add(reveal)
        self.untitled = reveal if at in self.taken else None
        self.pending = []
        return True

    def said_after(self, index):
        """Return the first sentence of the prose directly after a cell."""
        if index + 1 < len(self.cells) and self.cells[index + 1].cell_type == "markdown":
            for kind, source in blocks(self.cells[index + 1].source)[:1]:
                if kind == "paragraph" and not DESCRIPTION.match(source):
                    said = [s for s in sentences(source) if not NO_TITLE.match(s) and not ASKED.search(s)]
                    return said[0] if said else ""
        return ""

    def between(self, first, last):
        """Return whether other cells with output, or a heading, are between two cells."""
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
    """Merge a heading with few words into the slide of the figure, table or code that follows it."""
    merged = []
    for slide in slides:
        last = merged[-1] if merged else None
        few = last and last.kind == "section" and not last.evidence and last.words <= FEW_WORDS
        formula = few and any("<math" in point.markup for point in last.body)
        if few and slide.kind in ("figure", "table", "code") and not formula:
            says = slide.title or slide.lead
            slide.body = [Point(0, f"<p>{says}</p>")] if says and slide.kind != "code" else last.body[:2]
            slide.title, slide.section = last.title, last.section
            slide.notes = last.notes + slide.notes
            merged[-1] = slide
        elif few and slide.kind == "text" and last.words + slide.words <= WORDS:
            last.body += slide.body
            last.notes += slide.notes
        elif few and not last.body and slide.layout == "poll":
            slide.notes = last.notes + slide.notes
            merged[-1] = slide
        elif few and not last.body and slide.kind == "section":
            slide.section, slide.notes = last.title, last.notes + slide.notes
            merged[-1] = slide
        else:
            merged.append(slide)
    return merged


# --- parts of a cell


def outputs(cell, cells, index):
    """Return (figures, tables) of a code cell as HTML."""
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
    """Return the first sentence of the description that follows the figure of cell `index`."""
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
    """Return the first functions and classes of a cell, up to CODE_LINES lines, or "" if there are none."""
    try:
        body = ast.parse(source).body
    except SyntaxError:  # IPython's own syntax
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


def fields(asked):
    """Return the questions of a poll, each with a field for the class's answer."""
    rows = [
        f'<li><label><span>{line(q)}</span><input type="text" inputmode="decimal" autocomplete="off" '
        f'data-asked="{attribute(q)}" placeholder="the class says"></label></li>'
        for q in asked
    ]
    return f'<ul class="asked">{"".join(rows)}</ul>'


def numbers(asked, answers):
    """Return the measured numbers, next to the class's answers."""
    rows = [
        f'<div><dt>{line(q)}</dt><dd><output class="said" data-asked="{attribute(q)}"></output>'
        f"<strong>{value(answers[q][0])}</strong></dd></div>"
        for q in asked
    ]
    return f'<dl class="found">{"".join(rows)}</dl>'


def found_in_words(asked, answers):
    """Return the answer for the speaker, who knows it while the class still guesses."""
    return "Found: " + "; ".join(f"{q}: {value(answers[q][0])}" for q in asked) + "."


def value(text):
    """Return a number as printed; `inf` means that a search found none."""
    return re.sub(r"\binf\b.*", "in none of the trials", text)


def attribute(text):
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def first_sentences(source):
    """Return a Markdown list with only the first sentence of each item."""
    items = re.split(r"(?m)^(?=(?:\d+\.|[-*]) )", source)
    kept = []
    for item in filter(str.strip, items):
        mark, _, text = item.strip().partition(" ")
        kept.append(f"{mark} {sentences(text)[0]}")
    return "\n".join(kept)


def shorter(sentence, words=32):
    """Shorten a sentence for use as a title: in a long one, the part after a semicolon or a colon is left to
    the notes."""
    sentence = sentence[:1].upper() + sentence[1:]
    if len(sentence.split()) <= words:
        return sentence
    first = re.split(r"(?<=\w)[;:] ", sentence)[0].removesuffix(".")
    whole = first.count("$") % 2 == 0 and first.count("(") == first.count(")")
    return f"{first}." if whole and first.count("**") % 2 == 0 and first.count("`") % 2 == 0 else sentence
