"""Phrases that make English hard to read must not become more frequent. See How we write in
CONTRIBUTING.md."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PHRASES = {
    "who or what as a subject": r"(?:^|[.:;] )(?:Who|Whoever|What|Whatever|Where) (?![^.]*\?)",
    "that of, of its own": r"\b(?:that|those) of\b|\bof (?:its|one's|their|his|her) own\b",
    "a for per": r"\b(?:seconds?|bytes?|images?|messages?|calls?) an? (?:rank|step|second|image|student)\b",
    "is no": r"(?<!there )\b(?:is|are|was|were) no (?!longer|more|less|need)\w",
    "in which": r"\b(?:in|of|from|with|by|for|to|on|at) which\b",
    "nobody": r"\b(?:nobody|somebody|everybody|whoever)\b",
    "private terms": r"\b(?:anew|beside|mend(?:s|ed)?|hand(?:ed|s)? (?:in|out)|give[sn]? back)\b",
}
# Maximum number of matches in each folder, rounded up to a multiple of ten. Lower a limit after improving a
# folder; never raise one.
LIMITS = {
    "cluster": dict(zip(PHRASES, (10, 10, 10, 20, 30, 10, 10), strict=True)),
    "tests": dict(zip(PHRASES, (0, 10, 0, 30, 30, 60, 70), strict=True)),
}
LEFT_OUT = {
    "engine",
    "wrong_solutions",
    "alternative_solutions",
    "forgeries",
    "former",
    "__pycache__",
}


def prose(folder: Path) -> str:
    """Return the text of a folder's files, with line breaks and comment signs replaced with blanks."""
    files = [
        p for p in folder.rglob("*") if p.suffix in {".py", ".md", ".html", ".js"} and p != Path(__file__)
    ]
    texts = [p.read_text() for p in sorted(files) if not LEFT_OUT & set(p.parts)]
    return re.sub(r"\s*\n\s*(?:# )?", " ", "\n".join(texts))


@pytest.mark.parametrize("folder", LIMITS)
def test_no_phrase_becomes_more_frequent(folder):
    """Does each kind of phrase occur at most as often as its limit permits?"""
    text = prose(ROOT / folder)
    counts = {name: len(re.findall(phrase, text)) for name, phrase in PHRASES.items()}
    worse = {name: n for name, n in counts.items() if n > LIMITS[folder][name]}
    assert not worse, f"{worse} in {folder}/, at most {LIMITS[folder]}: see How we write in CONTRIBUTING.md"
