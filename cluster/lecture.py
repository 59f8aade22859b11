"""Shared functions of the lectures: the plot style, the number of threads, guesses, and computed claims.

    from cluster.lecture import begin, claim, compare, guess

    palette = begin()

A lecture asks for a guess before it computes. Guesses are not graded, but change how you read the result:

    guess("images a second on two ranks", None, unit=" images")  # write your number in place of None
    …
    compare("images a second on two ranks", measured)

A sentence of the text that ranks or compares numbers is computed in the same section:

    claim("two ranks are faster than one", measured > single)

In JupyterLab an input field appears below `guess` if ipywidgets is installed. Importing this module is cheap,
because `begin` imports the libraries that it configures.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

JUPYTER = "JPY_SESSION_NAME"  # set by a Jupyter server for the kernels of opened notebooks


@dataclass
class Guess:
    """A question with the guessed number (None so far) and its unit."""

    number: float | None
    unit: str


guesses: dict[str, Guess] = {}  # {question: guess}


def begin(threads: int = 2, seed: int | None = None, tensorflow: bool = True) -> list[str]:
    """Set style, threads and seed, print the versions and the machine, and return the style's colours.

    threads: number of threads for BLAS and each TensorFlow operation, at most the number of cores. seed: for
    Python, NumPy and Keras; None leaves them unchanged. tensorflow: False for lectures without it, which
    start sooner. Raises RuntimeError if TensorFlow ran with another number of threads; restart the kernel.
    """
    import matplotlib.pyplot as plt
    from threadpoolctl import threadpool_limits

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # read by TensorFlow when it is imported
    plt.style.use("cluster.course")
    threads = min(threads, cores())
    if tensorflow:
        import tensorflow as tf

        try:
            tf.config.threading.set_intra_op_parallelism_threads(threads)
        except RuntimeError as error:
            words = f"TensorFlow already uses a number of threads other than {threads}: restart the kernel"
            raise RuntimeError(words) from error
        tf.get_logger().setLevel("ERROR")
    if seed is not None:
        import keras

        keras.utils.set_random_seed(seed)
    threadpool_limits(limits=threads, user_api="blas")  # in effect until it is set again
    print(machine_line(threads, tensorflow))
    return plt.rcParams["axes.prop_cycle"].by_key()["color"]


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine_line(threads: int, tensorflow: bool = True) -> str:
    """Return processor, cores, threads, versions and the load average of the last minute."""
    from cluster.jobs.run import provenance

    versions = provenance.versions()
    names = {"python": "Python", "numpy": "NumPy"}
    names |= {"tensorflow": "TensorFlow", "keras": "Keras"} if tensorflow else {}
    parts = [
        f"{provenance.machine()['cpu']}, {count(cores(), 'core')}, {count(threads, 'thread')} used",
        ", ".join(f"{name} {versions[key]}" for key, name in names.items() if key in versions),
    ]
    if hasattr(os, "getloadavg"):
        parts.append(f"load {os.getloadavg()[0]:.1f}")
    return "; ".join(parts)


def count(n: int, noun: str) -> str:
    """Return a number with its noun, such as '1 core' or '2 cores'."""
    return f"{n} {noun}{'s' * (n != 1)}"


def guess(question: str, number: float | None = None, unit: str = "") -> None:
    """Ask for a guess before the number is known, by a field in JupyterLab unless it is given here.

    unit: the text printed after the number, with its leading space, such as " images", "%", "×". The cell
    can be run again without losing the number that was entered.
    """
    typed = guesses[question].number if question in guesses else None
    guesses[question] = Guess(typed if number is None else number, unit)
    if number is None and os.environ.get(JUPYTER):
        show_field(question, guesses[question])


def show_field(question: str, asked: Guess) -> None:
    """Display an input field for the guess, or nothing if ipywidgets is missing."""
    try:
        import ipywidgets
    except ImportError:
        return
    from IPython.display import display

    unit = asked.unit.strip()
    former = "" if asked.number is None else digits(asked.number)
    field = ipywidgets.Text(former, placeholder="your guess", continuous_update=False)
    field.layout.width = "8em"
    behind = ipywidgets.Label(unit)

    def typed(change: dict[str, str]) -> None:
        asked.number = number_in(change["new"])
        unclear = asked.number is None and change["new"].strip()
        behind.value = f"{unit} (a number, such as 1,200 or 3e8)" if unclear else unit

    field.observe(typed, "value")
    display(ipywidgets.HBox([ipywidgets.Label(f"{question}:"), field, behind]))


def number_in(text: str) -> float | None:
    """Parse a number as typed by a user, such as '1,200', '3e8' or '45 %'; None if it is not a number."""
    try:
        number = float(text.replace(",", "").strip().rstrip("%×").strip())
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def compare(question: str, found: float) -> None:
    """Print a result next to its guess. Raises LookupError, listing the questions, if there is no guess."""
    asked: Any
    if question not in guesses:
        asked = ", ".join(map(repr, guesses)) or "none so far"
        raise LookupError(f"compare({question!r}): no such guess; call guess() first. Guesses: {asked}")
    asked = guesses[question]
    words = "you wrote down no guess"
    if asked.number is not None:
        words = f"you guessed {digits(asked.number)}{asked.unit}"
    print(f"{question}: {digits(found)}{asked.unit}; {words}")


def claim(sentence: str, holds: bool) -> None:
    """Print a sentence of the text, with ✓ if it holds for the numbers computed here and ✗ otherwise.

    The build of the lectures fails for a ✗, and for a sentence that the section's text does not contain.
    """
    print(f"✓ {sentence}" if holds else f"✗ not on this machine: {sentence}")


def digits(number: float) -> str:
    """Format a number with three digits, or for thousands with all digits before the point."""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"
