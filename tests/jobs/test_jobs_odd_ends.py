"""However a function ends, the job shows the exception's class and line, or that it never returned."""

import pytest

from cluster.jobs import errors, submit
from cluster.jobs.backends import forked_ranks

from . import programs

pytestmark = pytest.mark.ranks


@pytest.fixture(scope="module", autouse=True)
def warm():
    """Fork ranks from a process that has already imported TensorFlow, which saves time for each rank."""
    with forked_ranks.offered(forked_ranks.LIBRARIES):
        yield


@pytest.mark.parametrize(
    ("how", "named"),
    [
        ("unspeakable", "Unspeakable"), ("huge", "ValueError"), ("surrogates", "ValueError"),
        ("group", "ExceptionGroup"), ("chained", "RuntimeError"), ("interrupted", "KeyboardInterrupt"),
        ("exit text", "SystemExit"), ("exit array", "SystemExit"), ("closed", "ValueError"),
        ("input", "EOFError"), ("parsed", "SystemExit"),
    ],
)  # fmt: skip
def test_the_class_and_the_line_of_each_exception_are_shown(runs, how, named):
    error = submit(programs.ends_oddly, how).wait().error()
    assert type(error) is errors.RankFailed and error.what.startswith(f"{named} on rank 0")
    assert "in ends_oddly" in error.traceback and len(str(error)) < 300_000


@pytest.mark.parametrize("how", ["_exit", "thread", "replaced"])
def test_a_process_that_ends_without_returning_has_failed(runs, how):
    job = submit(programs.ends_oddly, how).wait()
    assert job.status == "failed" and type(job.error()) is errors.RankFailed
    assert "exit code 0" in job.error().what and job.error().rank == 0


def test_a_function_has_the_arguments_and_the_input_of_a_script_without_any(runs):
    assert submit(programs.reads_its_arguments, name="my job").result() == [["my job"], None, ""]


@pytest.mark.parametrize("code", [0, None, False])
def test_exit_without_a_failure_returns_none(runs, code):
    assert submit(programs.exits_well, code).result() is None
