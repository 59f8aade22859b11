"""Jobs that can never run are detected before submission, with a solution that fits the cluster."""

import pytest

from cluster.slurm import limits

SMALL = ["short*|30:00|1-infinite|4|2|8192|gpu:2", "long|1-00:00:00|1-2|2|8|32768|(null)"]
ONE = {
    "partition": None, "time": 600, "nodes": 1, "ranks_per_node": 1, "cpus_per_rank": 1, "memory": 1024,
    "gpus_per_rank": 0,
}  # fmt: skip


def refusal(**asked):
    with pytest.raises(limits.TooMuch) as refused:
        limits.check(ONE | asked, limits.read_partitions(SMALL))
    return refused.value


def test_what_can_run_is_not_refused():
    limits.check(ONE | {"nodes": 4, "ranks_per_node": 2, "gpus_per_rank": 1}, limits.read_partitions(SMALL))


def test_ranks_that_do_not_fit_on_a_node_are_spread_out():
    """Four nodes have two CPUs each: does the error suggest two nodes for four ranks, and three for six? For
    ten ranks, which do not fit on any number of these nodes, is this suggestion omitted?"""
    error = refusal(ranks_per_node=4)
    assert "4 CPUs" in error.what and " 2" in error.what
    assert "nodes=2, ranks_per_node=2" in error.next_step
    assert "nodes=3, ranks_per_node=2" in refusal(ranks_per_node=6).next_step
    assert "ranks_per_node=2" not in refusal(ranks_per_node=10).next_step  # there are four nodes


def test_another_partition_is_named_where_it_offers_all():
    assert "partition='long'" in refusal(time=7200).next_step
    assert "partition=" not in refusal(memory=65536).next_step
