"""nbgrader's plug-in for students (ExchangeFactory.submit): a hand-in leaves a receipt in its user's cache.

What the receipt says (time, files, hashes) is read from the exchange, where `grade collect` reads it later.
"""

from pathlib import Path

from nbgrader.exchange.default import ExchangeSubmit

from cluster.system import files

from . import receipts


class Submit(ExchangeSubmit):
    """Hands in as nbgrader does. The folder's name in the exchange is secret, and so not in the receipt."""

    def copy_files(self) -> None:
        """As nbgrader does it; then the receipt."""
        super().copy_files()
        there = Path(self.inbound_path, self.assignment_filename)
        mine = Path(self.cache_path, self.assignment_filename.rpartition("+")[0])
        try:
            files.write_json(mine / receipts.NAME, receipts.facts_of(there))
        except OSError as error:  # it is handed in all the same
            self.log.warning("No receipt could be written: %s", error)
