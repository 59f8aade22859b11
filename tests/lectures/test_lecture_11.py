"""Lecture 11: its collectives, schedules and cost model are correct, and its recorded run uses them."""

import itertools

import numpy as np
import pytest

from cluster.jobs.run.provenance import code_digest
from cluster.network import Network, Placeholder, Switch, simulate, splits, sums

from ..modules import module_of
from .definitions import defined, recorded

INSTANT = Network(0.0, 0.0)


@pytest.fixture(scope="module")
def lecture():
    """What the lecture defines; no jobs are run, and nothing is drawn."""
    return defined("11", {"F", "WIDTH", "PSI", "STATE"})


@pytest.mark.parametrize("p", [1, 2, 3, 4, 7])
def test_the_two_halves_make_an_all_reduce(lecture, p):
    """Does the all-reduce give the sum of all ranks' contributions? Is chunk r of the sum on rank r after its
    first half, the reduce-scatter?
    """
    sums.check_sum(lecture["all_reduce"], ranks=p, n=4 * p)
    run = simulate(
        lambda comm: lecture["reduce_scatter"](comm, np.arange(2.0 * p) * (comm.rank + 1)),
        ranks=p,
        network=INSTANT,
    )
    total = np.arange(2.0 * p) * p * (p + 1) / 2
    assert np.array_equal(np.concatenate(run.results), total)


@pytest.mark.parametrize("p", [2, 4])
def test_all_stages_are_one_training_run(lecture, p):
    """Do all stages of sharding give bit-identical weights? Does each rank send (p − 1)/p · Ψ numbers two
    times per step, or three times in stage 3, where it also keeps only its part of the weights?
    """
    ends, sent, kept = [], [], []
    for stage in range(4):
        run = simulate(lecture["train"], stage, 2, ranks=p, network=INSTANT)
        weights = [weights for weights, _ in run.results]
        whole = [np.concatenate(parts) if stage == 3 else parts[0] for parts in zip(*weights, strict=True)]
        ends.append(np.concatenate(whole).tobytes())
        sent += [count.bytes_sent / (2 * 4 * lecture["PSI"] * (p - 1) / p) for count in run.counts]
        kept.append(sum(w.nbytes for w in weights[0]))
    assert len(set(ends)) == 1
    assert sent == [2.0] * 3 * p + [3.0] * p
    assert kept == [4 * lecture["PSI"]] * 3 + [4 * lecture["PSI"] // p]


@pytest.mark.parametrize(("layers", "c", "p"), [(4, 2e-3, 2), (6, 0.9e-3, 4), (5, 5e-3, 8)])
def test_a_sharded_step_as_predicted(lecture, layers, c, p):
    """With prefetching, and if computing takes longer than gathering, does a sharded step take the formula's
    time, with three exchanges per layer? Without prefetching, is its time the sum of both?
    """
    size = 25e6  # parameters: 50 MB
    network = Switch(lecture["ALPHA"], 1 / 50e9)
    chunk = Placeholder(2 * size / p, np.uint8)
    g = lecture["gather_seconds"](size, p, 50e9)
    run = simulate(lecture["fsdp_step"], layers, chunk, c, True, ranks=p, network=network)
    assert run.time == pytest.approx(lecture["step_seconds"](layers, c, g), rel=0.02)
    assert {count.bytes_sent for count in run.counts} == {3 * layers * (p - 1) * chunk.nbytes}
    alone = simulate(lecture["fsdp_step"], layers, chunk, c, False, ranks=p, network=network)
    assert alone.time == pytest.approx(3 * layers * (c + g), rel=1e-9)


@pytest.mark.parametrize("p", [2, 4])
def test_two_layers_cut_in_both_ways(lecture, p):
    rng = np.random.default_rng(p)
    x, w1, w2, g = map(rng.standard_normal, ((8, 16), (16, 32), (32, 16), (8, 16)))
    y, dx = np.maximum(x @ w1, 0) @ w2, (g @ w2.T * (x @ w1 > 0)) @ w1.T
    for name in ("as_a_pair", "each_alone"):
        results = simulate(lecture[name], x, w1, w2, g, ranks=p, network=INSTANT).results
        join = np.hstack if name == "each_alone" else (lambda parts: parts[0])
        found = [join(parts) for parts in zip(*results, strict=True)]
        assert np.allclose(found[0], y) and np.allclose(found[1], dx), name


@pytest.mark.parametrize("p", [1, 2, 4])
def test_a_convolution_by_height_is_the_whole_one(lecture, p):
    """Does a convolution of an image that is split by height equal the sum over the filter's nine
    positions?
    """
    rng = np.random.default_rng(0)
    image, w = rng.standard_normal((8, 6)), rng.standard_normal((3, 3))
    padded = np.pad(image, 1)
    expected = sum(w[i, j] * padded[i : i + 8, j : j + 6] for i, j in itertools.product(range(3), repeat=2))
    parts = simulate(lecture["by_height"], image, w, ranks=p, network=INSTANT).results
    assert np.allclose(np.concatenate(parts), expected)


@pytest.mark.parametrize(("p", "m"), [(1, 3), (2, 1), (3, 2), (4, 8), (4, 3)])
def test_schedules(lecture, p, m):
    """Do both schedules have the formula's bubble and give the same gradients? Does a stage store the
    activations of all m micro-batches with GPipe, and of at most p − stage with 1F1B?
    """
    batches = list(np.random.default_rng(m).standard_normal((m, 2, 32)))
    both = []
    for name in ("gpipe", "one_f_one_b"):
        run = simulate(lecture["pipeline"], lecture[name], batches, 1.0, ranks=p, network=INSTANT)
        assert run.time == 3 * (m + p - 1)
        assert {count.computing for count in run.counts} == {3 * m}
        both.append(run.results)
    for stage, (early, late) in enumerate(zip(*both, strict=True)):
        assert np.array_equal(early[0], late[0])
        assert (early[1], late[1]) == (m, min(m, p - stage))


def test_a_pipeline_has_the_gradients_of_one_process(lecture):
    """Does the pipeline's gradient of one weight in the first stage agree with finite differences of the loss
    |y|²/2?"""
    batches = list(np.random.default_rng(1).standard_normal((2, 2, 32)))
    gradient, _ = simulate(
        lecture["pipeline"], lecture["one_f_one_b"], batches, 0.0, ranks=2, network=INSTANT
    ).results[0]
    weights = [np.random.default_rng(rank).standard_normal((32, 32)) / 6 for rank in (0, 1)]

    def loss(change):
        first = weights[0].copy()
        first[3, 5] += change
        outputs = (np.tanh(np.tanh(x @ first) @ weights[1]) for x in batches)
        return sum((y**2).sum() / 2 for y in outputs)

    assert gradient[3, 5] == pytest.approx((loss(1e-6) - loss(-1e-6)) / 2e-6, rel=1e-6)


@pytest.mark.parametrize("every", [1, 2, 3, 6])
def test_recomputation(lecture, every):
    """If only every k-th of L outputs is stored and the others are recomputed, are the gradients the same,
    with a third more products and at most L/k + k − 1 outputs in memory?
    """
    weights = list(np.random.default_rng(0).standard_normal((6, 4, 4)) / 2)
    x = np.ones((3, 4))
    expected, products, _ = lecture["backward"](x, weights, 1)
    result, more, most = lecture["backward"](x, weights, every)
    assert all(np.array_equal(a, b) for a, b in zip(result, expected, strict=True))
    assert products == 18 and more == (24 if every > 1 else 18)
    assert most == 6 // every + every - 1


# ---- The recorded run


def test_the_record_is_of_the_lectures_functions():
    script = module_of("lectures/runs/11_sharding.py")
    assert recorded("11_sharding")["lecture"] == code_digest(script.used())


# ---- The cost model


NET = splits.Transformer(1e9, layers=16, width=2048, tokens=1024)
FAST = splits.Cluster(1e15, link=1e18, cable=1e18)  # messages take no time


def test_a_split_costs_by_hand():
    """If messages take no time, are the memory of the state and the activations, and the time with its bubble
    and with recomputation, as computed by hand?
    """
    flops = 6 * 1024 * (1e9 + 16 * 2048 * 1024)
    gb, seconds = splits.cost(NET, FAST, 8, splits.Split(1, 1, 1))
    assert gb == pytest.approx((16e9 + 34 * 16 * 2048 * 1024) / 1e9)
    assert seconds == pytest.approx(8 * flops / 0.6e15, rel=1e-6)
    gb, seconds = splits.cost(NET, FAST, 8, splits.Split(2, 1, 4, zero=1))
    assert gb == pytest.approx((1e9 / 4 * (4 + 12 / 2) + 34 * 4 * 4 * 2048 * 1024) / 1e9)
    assert seconds == pytest.approx((4 + 3) * flops / 4 / 0.6e15, rel=1e-6)
    _, again = splits.cost(NET, FAST, 8, splits.Split(2, 1, 4, zero=1, recompute=True))
    assert again == pytest.approx(4 / 3 * seconds, rel=1e-6)


def test_messages_leave_the_node_where_the_group_does():
    cluster = splits.Cluster(1e15, link=100.0, cable=10.0)
    assert cluster.seconds(1000, 8, 1) == pytest.approx(8.75)
    assert cluster.seconds(1000, 16, 1) == pytest.approx(93.75)
    assert cluster.seconds(1000, 2, 8) == pytest.approx(50)
    assert cluster.seconds(1000, 1, 8) == 0
    every = splits.Cluster(1e15, link=100.0, cable=10.0, all_cables=True)
    assert every.seconds(1000, 16, 1) == pytest.approx(937.5 / 80)  # the node's eight cables
    assert every.seconds(1000, 8, 4) == pytest.approx(875 / 20)  # two cables
    assert every.seconds(1000, 2, 8) == pytest.approx(50)
    wide = splits.Cluster(1e15, link=30.0, cable=10.0, all_cables=True)
    assert wide.seconds(1000, 16, 1) == pytest.approx(937.5 / 30)  # not faster than inside a node


def test_what_fits_is_found_fastest_first():
    cluster = splits.Cluster(989e12, link=450e9, cable=50e9)
    table = splits.search(NET, cluster, 16, 64, limit=40)
    assert len(table) and (table["GB"] < 40).all()
    assert table["MFU, %"].is_monotonic_decreasing and table["MFU, %"].max() <= 60
    assert ((table["data"] * table["tensor"] * table["pipeline"]) == 16).all()


def test_the_papers_rows_are_whole():
    """In each row of the paper, does t · q divide the number of GPUs, d the batch, and q the number of
    layers? Does equation 2 give the number of parameters from layers and width?
    """
    for billions, a, layers, t, q, gpus, batch, _ in splits.NARAYANAN_2021:
        assert gpus % (t * q) == 0 and batch % (gpus // (t * q)) == 0 and layers % q == 0
        count = 12 * layers * a**2 * (1 + 13 / (12 * a) + (51_200 + 2048) / (12 * layers * a))
        assert count / 1e9 == pytest.approx(billions, rel=0.03)
