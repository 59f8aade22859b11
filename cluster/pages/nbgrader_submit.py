"""nbgrader's plug-in for students (ExchangeFactory.submit): a submission arrives complete or not at all.

It leaves a receipt in its user's cache. The receipt's time, files and hashes are read from the exchange, as
`grade collect` does later.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from pathlib import Path

from nbgrader.exchange.default import ExchangeSubmit

from cluster.system import files

from . import receipts

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Submit(ExchangeSubmit):
    """Submits as nbgrader does, but writes each copy under another name first and renames it at the end.

    The folder's name in the exchange is secret, and so not in the receipt.
    """

    def copy_files(self) -> None:
        """Copy the assignment into the exchange and into the user's cache, and write the receipt.

        On a full disk both are as they were before, and so the previous submission counts.
        """
        self.init_release()
        self.check_filename_diff()
        name = self.assignment_filename
        there = Path(self.inbound_path, name)
        mine = Path(self.cache_path, name.rpartition("+")[0] if self.add_random_string else name)
        mine.parent.mkdir(parents=True, exist_ok=True)
        secret, beside = (
            secrets.token_hex(64),
            f".{secrets.token_hex(16)}.partial",
        )  # no name that is collected
        own, given = mine.with_name(beside), there.with_name(beside)
        try:
            self.write_copy(own, secret)
            try:
                self.write_copy(given, secret)
                self.set_perms(str(given), fileperms=0o644, dirperms=0o755)
                given.chmod(0o777)  # the instructor can delete it; nobody can guess its name
                given.rename(there)
            except OSError as error:
                if any(
                    os.strerror(number) in str(error) for number in FULL
                ):  # copytree's error lists several
                    raise RuntimeError(f"{receipts.COURSE_FULL}: {error}") from error
                raise
            own.rename(mine)
        finally:
            for path in (own, given):
                shutil.rmtree(path, ignore_errors=True)
        try:
            files.write_json(mine / receipts.NAME, receipts.facts_of(there))
        except OSError as error:  # it is submitted all the same
            self.log.warning("No receipt could be written: %s", error)
        course, assignment = self.coursedir.course_id, self.coursedir.assignment_id
        self.log.info("Submitted as: %s %s %s", course, assignment, self.timestamp)

    def write_copy(self, target: Path, secret: str) -> None:
        """Write the assignment's files and, last, what nbgrader knows a submission by."""
        self.do_copy(self.src_path, str(target))
        target.chmod(0o755)
        (target / "submission_secret.txt").write_text(secret)
        (target / "timestamp.txt").write_text(self.timestamp)
