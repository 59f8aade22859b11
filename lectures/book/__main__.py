"""Build the book, a site of the executed lectures for reading:  python lectures/book  (or `make book`).

With --staff, it includes the instructor's guide and is written to build/book-staff, which students must not
get.

It uses the current lectures and assignments and executes nothing; every Sphinx warning, such as a broken
link, is an error. The site is written next to build/book and then renamed, so a failed build leaves the old
one.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from sources import BookError, assemble

ROOT = Path(__file__).resolve().parents[2]


def build(root, target, staff=False):
    """Create the site of the course at `root` in `target`, replacing an old one, and return its pages."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".book-", dir=target.parent) as place:
        new, old = Path(place, "new"), Path(place, "old")
        pages = assemble(root, Path(place, "sources"), staff)
        command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
        command += ["-b", "html", "-d", f"{place}/doctrees", f"{place}/sources", str(new)]
        if subprocess.run(command).returncode:
            raise BookError("Sphinx failed as shown above; the book is unchanged")
        if target.exists():
            target.rename(old)
        new.rename(target)
    return pages


def main():
    keep = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=keep)
    parser.add_argument("--to", type=Path, help="default: build/book, or build/book-staff")
    parser.add_argument("--staff", action="store_true", help="with the instructor's guide; not for students")
    args = parser.parse_args()
    target = (args.to or ROOT / "build" / ("book-staff" if args.staff else "book")).absolute()
    if target.exists() and not (target / "searchindex.js").is_file():
        sys.exit(f"{target} exists and is not a book; remove it, or give another --to")
    try:
        pages = build(ROOT, target, args.staff)
    except BookError as error:
        sys.exit(str(error))
    print(f"{len(pages) + 1} pages: open {target}/index.html in a browser")


if __name__ == "__main__":
    main()
