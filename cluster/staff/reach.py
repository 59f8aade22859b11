"""What a piece of code reaches: the modules of the package and the files that executing it depends on.

Reached is what is imported anywhere in a file, also inside functions (but not under TYPE_CHECKING, which is
never executed); relatively; by `from package import module`; the `__init__` of each package on the way; and
what a string names, because ranks and sandboxes are started by name: "cluster.jobs.rank.main",
["-m", "cluster"], import_module("cluster.jobs"), imports in a text that is code; every module of a package
that a string is equal to, or that begins an f-string: f"cluster.jobs.{name}". What a package imports lazily,
in `__getattr__`, counts where something can ask for it. So a key takes in rather too much than too little.
Not seen is a name put together from pieces of which none holds "cluster.".
"""

from __future__ import annotations

import hashlib
import os
import re
import textwrap
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from .syntax import Names, names_in

PACKAGE = "cluster"
DATA_FOLDERS = {"static", "templates"}  # in the package, a string that names one means all that lies in it
IGNORED = {"__pycache__", ".ipynb_checkpoints", ".git", ".venv", ".grading", "build", "student"}
LEDGERS = ("runs", "lectures/text/runs", "solutions/*/runs")  # recorded here, never committed
DOTTED = re.compile(rf"(-m\s+)?\b({PACKAGE}(?:\.[A-Za-z_]\w*)+\.?)")
IMPORTED = re.compile(rf"\b(?:from\s+({PACKAGE}[\w.]*)\s+import\s+\(?([\w, ]+)|import\s+({PACKAGE}[\w.]*))")
A_PATH = re.compile(r"[\w.][\w./ -]{0,120}")

# What computes keys and keeps results takes no part in them, though it is imported beside what does.
NO_PART = tuple(
    f"{__name__.rpartition('.')[0].replace('.', '/')}/{name}.py"
    for name in ("keys", "reach", "results", "syntax")
)
Parts = dict[str, str]  # {part: hash}


def digest(content: bytes | str) -> str:
    """16 hex digits of a SHA-256."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()[:16]


class Tree:
    """The course at `root`, each file of which is read once."""

    def __init__(self, root: Path | str):
        self.root = Path(root).resolve()
        self._hashes: dict[Path, str] = {}
        self._names: dict[Path, Names] = {}
        self._modules: dict[tuple[str, Path | None], list[Path]] = {}
        self._links: dict[Path, Links] = {}
        self._lazy: dict[Path, Links] = {}
        self._files: dict[Path, list[Path]] = {}

    def hash(self, path: Path) -> str:
        if path not in self._hashes:
            self._hashes[path] = digest(path.read_bytes())
        return self._hashes[path]

    def name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def names(self, path: Path) -> Names:
        """The Names of a Python file."""
        if path not in self._names:
            package = self.name(path).split("/")[:-1]
            self._names[path] = names_in(path.read_text(encoding="utf-8"), package, self.name(path))
        return self._names[path]

    def links(self, path: Path) -> Links:
        """What a Python file reaches at once; a script also reads what lies in the folder of its name."""
        if path not in self._links:
            links = self._links[path] = Linker(self, self.names(path), path.parent).links
            own = path.with_suffix("")
            if own.is_dir() and not path.is_relative_to(self.root / PACKAGE):
                links.files.update(self.files(own))
        return self._links[path]

    def lazy(self, path: Path) -> Links:
        """What the `__getattr__` of a Python file reaches."""
        if path not in self._lazy:
            names = self.names(path).lazy
            self._lazy[path] = Linker(self, names, path.parent).links if names else Links()
        return self._lazy[path]

    def module(self, dotted: str, beside: Path | None = None) -> list[Path]:
        """The files of a module, its packages' `__init__` first; [] where it is none of the course's.

        beside: a folder whose scripts can import what lies beside them; a package's modules cannot.
        """
        if beside is not None and beside.is_relative_to(self.root / PACKAGE):
            beside = None
        at = (dotted, beside)
        if at not in self._modules:
            found = self._module(self.root, dotted.split("."))
            if not found and beside is not None:
                found = self._module(beside, dotted.split("."))
            self._modules[at] = found
        return self._modules[at]

    def _module(self, folder: Path, parts: list[str]) -> list[Path]:
        found = []
        for number, part in enumerate(parts):
            folder = folder / part
            last = number == len(parts) - 1
            if (folder / "__init__.py").is_file():
                found.append(folder / "__init__.py")
            elif last and folder.with_suffix(".py").is_file():
                found.append(folder.with_suffix(".py"))
            elif last or not folder.is_dir():
                return []
        return found

    def files(self, folder: Path) -> list[Path]:
        """All files under a folder that somebody wrote, sorted."""
        if folder not in self._files:
            self._files[folder] = sorted(p for p in folder.rglob("*") if p.is_file() and self.counts(p))
        return self._files[folder]

    def counts(self, path: Path) -> bool:
        """Is this a file of the course, and not made by running it?"""
        if not path.is_relative_to(self.root) or path.suffix in (".pyc", ".tmp"):
            return False
        name = self.name(path)
        return not IGNORED & set(name.split("/")) and not any(
            fnmatch(name, f"{ledger}/*") for ledger in LEDGERS
        )


@dataclass
class Links:
    """What a file or a piece of code reaches at once."""

    files: set[Path] = field(default_factory=set)
    lazy: set[Path] = field(default_factory=set)  # modules that it can make import what they import lazily


class Linker:
    """Finds the Links of `names` that stand in `folder`."""

    def __init__(self, tree: Tree, names: Names, folder: Path):
        self.tree, self.folder, self.links = tree, folder, Links()
        self.in_package = folder.is_relative_to(tree.root / PACKAGE)
        self.above = [folder, *(p for p in folder.parents if p.is_relative_to(tree.root))]
        if self.in_package:  # paths beside the module and above it, but not outside the package
            self.above.remove(tree.root)
        self.follow(names)

    def follow(self, names: Names) -> None:
        for module in names.modules | names.tops:
            self.module(module, lazy=True)
        for module, name in names.members:
            self.member(module, name)
        for module in names.started:
            self.module(module)
            self.module(f"{module}.__main__")
        for text in names.strings:
            self.string(text)

    def module(self, dotted: str, lazy: bool = False) -> None:
        """A module; `lazy`: with attributes of it, which a lazy package then imports."""
        found = self.tree.module(dotted, self.folder)
        self.links.files.update(found)
        if lazy and found:
            self.links.lazy.add(found[-1])

    def member(self, module: str, name: str) -> None:
        """`from module import name`."""
        found = self.tree.module(module, self.folder)
        if not found:
            return
        self.module(module)
        if name == "*":
            self.links.lazy.add(found[-1])
            for each in self.tree.names(found[-1]).strings:  # those of __all__ among them
                if each.isidentifier():
                    self.module(f"{module}.{each}")
        elif self.tree.module(f"{module}.{name}", self.folder):
            self.module(f"{module}.{name}", lazy=True)
        elif name not in self.tree.names(found[-1]).bound:
            self.links.lazy.add(found[-1])

    def string(self, text: str) -> None:
        for match in DOTTED.finditer(text):
            started, dotted = match.groups()
            self.named(dotted, bool(started), whole=dotted == text, end=match.end() == len(text))
        if "import" in text:
            try:
                self.follow(names_in(textwrap.dedent(text)))
            except ValueError:  # prose, or code with holes in it
                for module, members, imported in IMPORTED.findall(text):
                    if imported:
                        self.module(imported, lazy=True)
                    for name in members.replace(",", " ").split():
                        self.member(module, name)
        if A_PATH.fullmatch(text):
            self.path(text)

    def named(self, dotted: str, started: bool, whole: bool, end: bool) -> None:
        """A name with dots in a string: of a module, of something in it, of a package, or its beginning."""
        parts, rest = dotted.rstrip(".").split("."), []
        while not (found := self.tree.module(".".join(parts))):
            rest.insert(0, parts.pop())
            if not parts:
                return
        module, package = ".".join(parts), found[-1].name == "__init__.py"
        self.module(module)
        if not rest and package and (whole or (end and dotted.endswith("."))):
            files = [path for path in self.tree.files(found[-1].parent) if path.suffix == ".py"]
            self.links.files.update(files)
            self.links.lazy.update(files)
        elif not rest and started:
            self.module(f"{module}.__main__")
        elif rest and package:
            style = set(found[-1].parent.glob(f"{rest[0]}.*"))  # of matplotlib's: cluster.course
            self.links.files |= style
            self.links.lazy |= set() if style else {found[-1]}

    def path(self, text: str) -> None:
        """A string that may be a path: of a file, of a folder (then it ends with /), or how some begin."""
        for folder in self.above:
            name = os.path.normpath(os.path.join(folder, text))
            exists = os.path.exists(name)
            if not exists and ("/" not in text or self.in_package):
                continue
            path = Path(name)
            if path in self.above or not self.tree.counts(path):
                continue
            if self.in_package:
                if path.name in DATA_FOLDERS and path.is_dir():
                    self.links.files.update(self.tree.files(path))
                elif path.is_file() and path.suffix not in (".py", ".md"):
                    self.links.files.add(path)
            elif path.is_file():
                self.links.files.add(path)
            elif folder == self.tree.root:  # nothing is executed there: a folder's name is another word
                continue
            elif text.endswith("/"):
                self.links.files.update(self.tree.files(path))
            elif not exists and path.parent not in self.above:
                self.links.files |= {p for p in self.tree.files(path.parent) if str(p).startswith(name)}


class Reach:
    """All files that code reaches in a Tree: `files`."""

    def __init__(self, tree: Tree, *modules: str):
        self.tree, self.files, self._lazy = tree, set(), set()
        for module in modules:
            if not (found := tree.module(module)):
                raise ValueError(f"{tree.root} has no module {module}")
            self.add(Links(set(found)))

    def copy(self) -> Reach:
        """A Reach that starts from what this one has reached."""
        new = Reach(self.tree)
        new.files, new._lazy = set(self.files), set(self._lazy)
        return new

    def code(self, source: str, folder: Path, where: str) -> Reach:
        """Add what a piece of code reaches that is executed in `folder`."""
        return self.add(Linker(self.tree, names_in(source, (), where), folder).links)

    def file(self, path: Path) -> Reach:
        """Add a file; if it is Python, also what it reaches."""
        return self.add(Links({path}))

    def parts(self) -> Parts:
        """{relative path: hash} of the files."""
        found = {self.tree.name(path): self.tree.hash(path) for path in self.files}
        return {name: found[name] for name in sorted(found)}

    def add(self, links: Links) -> Reach:
        """Add files, and what they reach."""
        todo = [links]
        while todo:
            links = todo.pop()
            new = {path for path in links.files - self.files if self.tree.name(path) not in NO_PART}
            lazy = links.lazy - self._lazy
            self.files |= new
            self._lazy |= lazy
            todo += [self.tree.links(path) for path in new if path.suffix == ".py"]
            todo += [self.tree.lazy(path) for path in lazy]
        return self
