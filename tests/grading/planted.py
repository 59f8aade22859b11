"""Measure the share of inserted copies that the similarity search finds among independent submissions.

Each entry of tests/alternative_solutions and tests/wrong_solutions represents one student's submission. Cells
that the entry does not replace equal the solution's. A copy is a submission after one of CHANGES.
"""

import ast
import io
import tokenize

from cluster.staff.release import wrong_solutions
from cluster.staff.results import similarity
from tests import ROOT


def renamed(source):
    """Rename every variable and parameter."""
    bound = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
    lines = source.splitlines(keepends=True)
    results = [t for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type == tokenize.NAME]
    before = {t.start: lines[t.start[0] - 1][: t.start[1]].rstrip()[-1:] for t in results}
    for t in reversed(results):
        if t.string in bound and before[t.start] != ".":
            row, column = t.start
            line = lines[row - 1]
            lines[row - 1] = f"{line[:column]}my_{t.string[::-1]}{line[column + len(t.string) :]}"
    return "".join(lines)


def reformatted(source):
    """Reformat the code with Python's unparser: it changes quotes, brackets and line breaks, and removes
    comments."""
    return ast.unparse(ast.parse(source))


def commented(source):
    """Add an empty line and a comment before each statement."""
    tree = ast.parse(source)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    lines = source.splitlines()
    for row, column in sorted({(n.lineno, n.col_offset) for n in nodes}, reverse=True):
        if not lines[row - 1][:column].strip():
            lines[row - 1 : row - 1] = ["", f"{' ' * column}# step {row}: what comes next"]
    return "\n".join(lines)


def source_wise(change):
    return lambda cells: [(name, change(source)) for name, source in cells]


CHANGES = {
    "unchanged": list,
    "variables renamed": source_wise(renamed),
    "cells moved": lambda cells: list(reversed(cells)),
    "reformatted": source_wise(reformatted),
    "comments changed": source_wise(commented),
    "all of these": lambda cells: [(n, commented(reformatted(renamed(s)))) for n, s in reversed(cells)],
}


def works(assignment):
    """Return (known cells, {kind: [(name, [(cell, source)])]}) for the alternative solutions and the
    mutants."""
    release = similarity.read(ROOT / "exercises" / assignment)[0]
    solution = similarity.read(ROOT / "solutions" / assignment)[0]
    answers = wrong_solutions.cells_of(solution, "solution")
    known = [similarity.cells_of(release), similarity.cells_of(solution)]
    results = {}
    for kind, load in (("unusual", wrong_solutions.load_all_unusual), ("mutants", wrong_solutions.load_all)):
        results[kind] = []
        for row in load(ROOT, assignment, solution):
            holes = [(n, wrong_solutions.refill(answers[n].source, text)) for n, text in row.replace.items()]
            results[kind].append((row.name, holes))  # all other cells equal the solution's and are ignored
    return known, results


def work(name, cells):
    return similarity.Work(name, [similarity.cell(*cell) for cell in cells])


def names(pairs):
    return {frozenset((pair.one.student, pair.other.student)) for pair in pairs}


def measured(assignment, kind, changes=CHANGES, **thresholds):
    """Compare the class of an assignment's entries, without and with copies.

    Return ({change: (copies found, all copies)}, the pairs shown without copies).
    """
    known, found = works(assignment)
    class_ = found[kind]
    alone, without = similarity.compare(
        [work(*one) for one in class_], known, common=len(class_), **thresholds
    )
    judged = [one for one in class_ if one[0] not in without]
    copies = {}
    for change, do in changes.items():
        changed = [work(f"copy of {name}", do(cells)) for name, cells in judged]
        pairs, _ = similarity.compare(
            [*(work(*one) for one in class_), *changed], known, common=2 * len(class_), **thresholds
        )
        caught = names(pairs)
        hit = sum(frozenset((name, f"copy of {name}")) in caught for name, _ in judged)
        copies[change] = hit, len(judged)
    return copies, alone
