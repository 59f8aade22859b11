"""Which names a cell needs and which it defines; from the compiled code, nothing is run."""

import builtins
import dis
import types


def compiled(text, name):
    """The code of a cell. Raises SyntaxError."""
    return compile(text, f"<{name}>", "exec")


def used(code):
    """Global names that the code, or a function in it, looks up."""
    found = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_NAME", "LOAD_GLOBAL")}
    return found.union(*(used(inner) for inner in code.co_consts if isinstance(inner, types.CodeType)))


def defined(code, top=True):
    """Global names that the code sets."""
    kinds = ("STORE_NAME", "STORE_GLOBAL") if top else ("STORE_GLOBAL",)
    found = {i.argval for i in dis.get_instructions(code) if i.opname in kinds}
    return found.union(*(defined(c, False) for c in code.co_consts if isinstance(c, types.CodeType)))


def missing(code, known):
    """Names that must come from elsewhere: neither known, nor defined by the code, nor Python's own."""
    return sorted(used(code) - set(known) - defined(code) - set(vars(builtins)) - {"__name__", "__class__"})


def independent(cells):
    """[(name, code)] of those given cells that need nothing of the student's, in order.

    cells: [(name, text)]. A cell that uses a name which no cell before it in this list defines is left out.
    """
    known, chosen = set(), []
    for name, text in cells:
        try:
            code = compiled(text, name)
        except SyntaxError:  # a magic of IPython's
            continue
        if not missing(code, known):
            chosen.append((name, code))
            known |= defined(code)
    return chosen
