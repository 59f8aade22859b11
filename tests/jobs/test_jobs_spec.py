"""Dividing keywords between options and the function's arguments, and validating options."""

import time

import pytest

from cluster.jobs import options
from cluster.jobs.errors import JobError, OptionError, OptionValueError
from cluster.slurm import words


def train(epochs, rate=0.1):
    return epochs * rate


def test_keywords_go_to_whom_they_name():
    asked, given, arguments = options.read_call(train, (), {"epochs": 3, "nodes": 2})
    assert (asked.nodes, given, arguments) == (2, {"epochs": 3}, {"epochs": 3, "rate": 0.1})
    assert arguments == options.read_call(train, (3,), {"rate": 0.1})[2]  # the same call
    with pytest.raises(OptionError, match="'epochs'"):
        options.read_call(train, (), {})


@pytest.mark.parametrize(
    ("word", "meant"), [("memroy", "memory"), ("epoch", "epochs"), ("rank_per_node", "ranks_per_node")]
)
def test_a_misspelt_keyword_names_the_nearest_and_lists_all(word, meant):
    with pytest.raises(OptionError) as caught:
        options.read_call(train, (), {word: 1})
    assert repr(word) in caught.value.what and repr(meant) in caught.value.next_step
    assert all(name in caught.value.next_step for name in [*options.NAMES, "epochs", "rate"])


def test_a_parameter_named_like_an_option_is_refused():
    def wait(time):
        return time

    with pytest.raises(OptionError, match="'time'"):
        options.read_call(wait, (), {"time": 3})


@pytest.mark.parametrize(
    ("option", "value", "form"),
    [
        ("memory", "2GG", "'2G' or '512M'"),
        ("memory", 2, "a number and a unit"),
        ("memory", "0G", "a number and a unit"),
        ("time", "abc", "hours:minutes:seconds"),
        ("time", 10, "hours:minutes:seconds"),
        ("time", "00:00:00", "hours:minutes:seconds"),
        ("nodes", 0, "a whole number, 1 or more"),
        ("ranks_per_node", 1.5, "a whole number, 1 or more"),
        ("ranks_per_node", True, "a whole number, 1 or more"),
        ("gpus_per_rank", -1, "a whole number, 0 or more"),
        ("controller", "nccl", "'auto', 'gloo', 'mpi'"),
        ("backend", "Slurm", "'auto', 'local', 'slurm'"),
        ("rerun", "yes", "True, False"),
        ("name", "two\nlines", "on one line"),
        ("partition", "", "1 to 200 characters"),
        ("env", {"A B": 1}, "names of environment variables"),
        ("env", "A=1", "a dictionary"),
        ("sbatch", {"wrap": "rm"}, "which submit writes itself"),
        ("sbatch", {"bad option": 1}, "long options of sbatch"),
        ("sbatch", {"account": "a\n#SBATCH --uid=0"}, "on one line"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_quoted_with_the_right_form(option, value, form):
    with pytest.raises(OptionValueError) as caught:
        options.check_options({option: value})
    assert isinstance(caught.value, (JobError, ValueError))
    assert form in str(caught.value)


@pytest.mark.parametrize(
    ("text", "mib"), [("2G", 2048), ("512M", 512), ("1.5g", 1536), ("2 GiB", 2048), ("1T", 2**20)]
)
def test_memory_is_brought_to_mib(text, mib):
    assert options.check_options({"memory": text}).memory == mib


@pytest.mark.parametrize(
    ("text", "seconds"), [("00:10:00", 600), ("1-02:03:04", 93784), ("0:00:05", 5), ("100:00:00", 360000)]
)
def test_time_is_brought_to_seconds_and_back(text, seconds):
    assert options.check_options({"time": text}).time == seconds
    assert options.check_options({"time": words.clock(seconds)}).time == seconds


def test_a_function_in_c_that_tells_no_parameters_takes_positional_ones():
    asked, given, arguments = options.read_call(time.sleep, (3,), {"memory": "1G"})
    assert (asked.memory, given, arguments) == (1024, {}, {"argument 0": 3})
    with pytest.raises(OptionError, match="'seconds'"):
        options.read_call(time.sleep, (), {"seconds": 3})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, ""),
        ({"memory": "1.5G", "time": "1:00:00", "nodes": 2}, ", nodes=2, memory='1536M', time='01:00:00'"),
    ],
)
def test_the_recorded_command_makes_the_run_again(given, message):
    """Does a recorded command list its options in the form that `submit` accepts, without those that have
    their default values?"""
    from cluster.jobs.run import provenance

    command = provenance.command("train", {"epochs": 3}, vars(options.check_options(given)))
    assert command == f"submit(train, epochs=3{message})"
    again = eval(command, {"submit": lambda target, epochs, **options: options, "train": None})
    assert vars(options.check_options(again)) == vars(options.check_options(given))
