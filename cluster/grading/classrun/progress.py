"""How far the grading of a class is: one line drawn over itself on a terminal, else a line now and then."""

import sys
import time

from cluster.grading.course import say


class Progress:
    """Of `total` submissions that have to be executed. Use as a context."""

    def __init__(self, total):
        self.total, self.done, self.again = total, 0, 0
        self.begun, self.shown, self.text = time.monotonic(), 0.0, ""
        self.tty = sys.stdout.isatty()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.tty and self.text:
            sys.stdout.write("\n")

    def show(self, said=""):
        """Draw the line anew if something has changed; `said` is what there is to say of the workers."""
        now, every = time.monotonic(), 0.5 if self.tty else 20.0
        last = self.done == self.total
        if not self.total or (now - self.shown < every and not last):
            return
        text = self.line(said)
        if text == self.text:
            return
        self.shown, self.text = now, text
        if self.tty:
            sys.stdout.write(f"\r\x1b[K{text[:110]}")
            sys.stdout.flush()
        else:
            say(text)

    def line(self, said):
        from tqdm.std import tqdm

        bar = tqdm.format_meter(
            self.done, self.total, time.monotonic() - self.begun, ncols=64, unit="sub", prefix="  graded"
        )
        again = f", {self.again} once more" if self.again else ""
        return bar + again + (f"; {said}" if said else "")
