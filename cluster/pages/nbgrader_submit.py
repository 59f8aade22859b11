"""nbgrader's plug-in for students (ExchangeFactory.submit): a submission arrives complete or not at all.

Its receipt in the user's cache contains time, files and hashes from the exchange, as read by `grade collect`.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from nbgrader.exchange.default import ExchangeSubmit
from nbgrader.utils import ignore_patterns

from cluster.system import files

from . import old_runs, receipts

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Submit(ExchangeSubmit):
    """Submit like nbgrader, but write each copy under another name first and rename it at the end.

    The folder's name in the exchange is secret, and therefore not in the receipt. Old runs are left out.
    """

    old: Sequence[Path] = ()

    def copy_files(self) -> None:
        """Copy the assignment into the exchange and into the user's cache, and write the receipt.

        On a full disk, both remain as before, so the previous submission counts.
        """
        self.init_release()
        self.check_filename_diff()
        self.old = old_runs.old_runs(Path(self.src_path), Path(self.release_path))
        name = self.assignment_filename
        there = Path(self.inbound_path, name)
        mine = Path(self.cache_path, name.rpartition("+")[0] if self.add_random_string else name)
        mine.parent.mkdir(parents=True, exist_ok=True)
        with files.lock(mine.parent / ".submitting.lock"):
            remove_cut_off(mine.parent, there.parent)
            self.write_both(mine, there)
        try:
            files.write_json(mine / receipts.NAME, receipts.facts_of(there))
        except OSError as error:  # the submission has arrived nevertheless
            self.log.warning("No receipt could be written: %s", error)
        course, assignment = self.coursedir.course_id, self.coursedir.assignment_id
        self.log.info("Submitted as: %s %s %s", course, assignment, self.timestamp)

    def write_both(self, mine: Path, there: Path) -> None:
        """Write the copies in the cache and in the exchange: both, or neither."""
        secret, temporary = (
            secrets.token_hex(64),
            f".{secrets.token_hex(16)}.partial",
        )  # a name that is not collected
        own, given = mine.with_name(temporary), there.with_name(temporary)
        try:
            self.write_copy(own, secret)
            try:
                self.write_copy(given, secret)
                self.set_perms(str(given), fileperms=0o644, dirperms=0o755)
                given.chmod(0o777)  # so the instructor can delete it; its name cannot be guessed
                given.rename(there)
            except OSError as error:
                # copytree raises one error that lists those of all files
                if any(os.strerror(number) in str(error) for number in FULL):
                    raise RuntimeError(f"{receipts.COURSE_FULL}: {error}") from error
                raise
            own.rename(mine)
        finally:
            for path in (own, given):
                shutil.rmtree(path, ignore_errors=True)

    def write_copy(self, target: Path, secret: str) -> None:
        """Write the assignment's files and, last, the file by which nbgrader recognises a submission."""
        folder, limits, old = Path(self.src_path), self.coursedir, self.old
        inside = [
            path for path in old_runs.submitted(folder, old) if path.is_file() and not path.is_symlink()
        ]
        if (size := sum(path.stat().st_size for path in inside)) > 1000 * limits.max_dir_size:
            raise RuntimeError(
                f"Directory size is too big: {size} bytes; the limit is {1000 * limits.max_dir_size} bytes"
            )
        leaves = old_runs.left_out(folder, old)
        given = ignore_patterns(limits.ignore, limits.include, limits.max_file_size, self.log)
        shutil.copytree(folder, target, ignore=lambda *where: {*leaves(*where), *given(*where)})
        target.chmod(0o755)
        (target / "submission_secret.txt").write_text(secret)
        (target / "timestamp.txt").write_text(self.timestamp)


def remove_cut_off(cache: Path, inbound: Path) -> None:
    """Remove the leftovers of a killed submission of this user; the lock of `cache` is held.

    The inbound folder cannot be listed, but a half-written copy has the same name in both. Leftovers of
    users who never submit again are removed by the hub at its start and by its backup.
    """
    for own in cache.glob(".*.partial"):
        shutil.rmtree(inbound / own.name, ignore_errors=True)
        shutil.rmtree(own, ignore_errors=True)
