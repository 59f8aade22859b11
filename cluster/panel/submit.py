"""nbgrader's plug-in for students (ExchangeFactory.submit): a hand-in leaves a receipt in its user's cache.

What the receipt says (time, files, hashes) is read from the exchange, where `grade collect` reads it later.
"""

import json
from pathlib import Path

from nbgrader.exchange.default import ExchangeSubmit

from . import receipts


class Submit(ExchangeSubmit):
    """Hands in as nbgrader does. The folder's name in the exchange is secret, and so not in the receipt."""

    def copy_files(self):
        super().copy_files()
        there = Path(self.inbound_path, self.assignment_filename)
        mine = Path(self.cache_path, self.assignment_filename.rpartition("+")[0])
        try:
            beside = mine / f".{receipts.NAME}.new"
            beside.write_text(json.dumps(receipts.seen(there), indent=1) + "\n")
            beside.replace(mine / receipts.NAME)
        except OSError as error:  # it is handed in all the same
            self.log.warning("No receipt could be written: %s", error)
