"""`doctor --gpu`: its inputs, the expected rates, the findings, and its two jobs, run here on CPUs; and how
ranks choose their GPUs."""

import copy
import os
import sys
from unittest import mock

import pytest

import cluster
from cluster import __main__ as shell
from cluster.doctor import findings, gpu_check, gpu_links, gpu_steps
from cluster.doctor.findings import Report
from cluster.doctor.gpu_links import Link
from cluster.jobs.errors import LaunchFailed
from cluster.jobs.rank import rendezvous
from tests import fakes

# As nvidia-smi writes it: the header is underlined, and columns of adapters and of affinity follow the GPUs'
# columns.
SWITCH = """\
\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV12\tSYS\tPXB\t0-31,64-95\t0\t\tN/A
GPU1\tNV12\t X \tPIX\tPXB\t0-31,64-95\t0\t\tN/A
GPU2\tSYS\tPIX\t X \tSYS\t32-63,96-127\t1\t\tN/A
NIC0\tPXB\tPXB\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
"""
NVLINKS = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5f)
\t Link 0: 25 GB/s
\t Link 1: 25 GB/s
\t Link 2: <inactive>
"""
ASKED = """\
0, GPU-5f6a, NVIDIA A100-SXM4-40GB, 8.0, 4, 16
1, GPU-77b1, NVIDIA A100-SXM4-40GB, 8.0, 4, 16
"""
LOG = """\
node1:1080641:1080641 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eno1:172.18.0.6<0>
node1:1080641:1080851 [0] NCCL INFO Channel 00/08 :    0   1
"""


def way(words):
    return f"{LOG}node1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] {words}\n"


def gpu(index=0, **more):
    """Return a rank's report on its GPU, by default an A100 of a node where nvidia-smi answers as above."""
    gpu = gpu_links.gpus(ASKED)[min(index, 1)] | {"index": str(index)}
    known = {"host": "n1", "topology": SWITCH, "links": 2, "infiniband": {}, "interfaces": {}}
    return known | gpu | more


def test_what_nvidia_smi_says_of_a_pair():
    """Is the connection of two GPUs found in either order, although the table's header is underlined and some
    columns are not GPUs?"""
    paths = {(a, b): gpu_links.pair(SWITCH, a, b) for a in range(3) for b in range(3)}
    assert paths[0, 1] == paths[1, 0] == "NV12"
    assert paths[0, 2] == paths[2, 0] == "SYS" and paths[1, 2] == "PIX"
    assert paths[0, 0] is None and gpu_links.pair(SWITCH, 0, 7) is None and gpu_links.pair("", 0, 1) is None
    assert gpu_links.links(NVLINKS) == 2 and gpu_links.links("") == 0


@pytest.mark.parametrize(
    ("visible", "number", "uuid"),
    [
        (None, 1, "GPU-77b1"),
        ("1", 0, "GPU-77b1"),  # Slurm's number: the rank sees only one GPU, which it numbers 0
        ("1,0", 1, "GPU-5f6a"),
        ("GPU-77", 0, "GPU-77b1"),
        ("", 0, None),
        (None, 2, None),
    ],
)
def test_the_gpu_of_a_rank_is_found_by_what_it_may_see(visible, number, uuid):
    gpu = gpu_links.chosen(gpu_links.gpus(ASKED), visible, number)
    assert (gpu["uuid"] if gpu else None) == uuid


def test_the_transports_in_the_log_of_nccl():
    """Does the list contain each transport that NCCL's log shows as used, once, and no adapter that was only
    detected?"""
    log = way("via P2P/CUMEM") + way("via P2P/CUMEM") + way("[send] via NET/IB/0/GDRDMA")
    assert gpu_links.transports(log) == ["NET/IB/0/GDRDMA", "P2P/CUMEM"]
    assert gpu_links.transports(LOG) == []


@pytest.mark.parametrize(
    ("a", "b", "ways", "message", "rate"),
    [
        # NVIDIA's data sheets add both directions: A100 600 GB/s with 12 links, H100 900 with 18
        (gpu(0), gpu(1), [], "NVLink 3, 12 links", 300e9),
        (gpu(0, compute_cap="9.0", topology=SWITCH.replace("NV12", "NV18")),
         gpu(1, compute_cap="9.0"), [], "NVLink 4, 18 links", 450e9),
        (gpu(0, compute_cap="99.0"), gpu(1), [], "NVLink of a generation not known here, 12 links", None),
        # 16 GT/s on 16 lanes, 128 of 130 bits: 31.5 GB/s; 8 GT/s on 8 lanes: 7.88 GB/s
        (gpu(0), gpu(2), [], "PCIe 4 x16 over the link between the processors", 31.5e9),
        (gpu(1), gpu(2, **{"pcie.link.gen.max": "3", "pcie.link.width.max": "8"}), [],
         "PCIe 3 x8 over one PCIe switch", 7.88e9),
        (gpu(1), gpu(2, **{"pcie.link.gen.max": "[N/A]"}), [],
         "PCIe over one PCIe switch, whose generation nvidia-smi does not report", None),
        # each task sees only its own GPU, as number 0
        (gpu(0), gpu(0, uuid="GPU-77b1"), ["P2P/IPC"], "NVLink 3, 2 links", 50e9),
        (gpu(0), gpu(0, uuid="GPU-77b1"), ["SHM/direct/direct"], "PCIe 4 x16", 31.5e9),
        (gpu(0), gpu(0, host="n2", infiniband={"mlx5_0": "100 Gb/sec (4X EDR)"}), ["NET/IB/0"],
         "InfiniBand or RoCE, at a rate that Linux does not report", None),
        (gpu(0, infiniband={"mlx5_0": "200 Gb/sec (4X HDR)", "mlx5_1": "25 Gb/sec (1X EDR)"}),
         gpu(0, host="n2", infiniband={"mlx5_0": "100 Gb/sec (4X EDR)"}), ["NET/IB/0/GDRDMA"],
         "InfiniBand or RoCE (mlx5_0, 100 Gbit/s)", 12.5e9),
        (gpu(0, interfaces={"eth0": "25000", "lo": "", "docker0": "-1"}, infiniband={"mlx5_0": "200 Gb/sec"}),
         gpu(0, host="n2", interfaces={"eth0": "10000"}), ["NET/Socket/0"],
         "the network by TCP (eth0, 10 Gbit/s)", 1.25e9),
    ],
)  # fmt: skip
def test_what_is_expected_of_a_link(a, b, ways, message, rate):
    """Is a link's expected rate the rate of its slower end, or None if that end's rate is unknown?"""
    link = gpu_links.between(a, b, ways)
    assert link.words == message and link.rate == (rate and pytest.approx(rate, rel=1e-3))
    assert a["topology"] != b["topology"] or gpu_links.between(b, a, ways) == link


def seen(seconds, wrong=0, **place):
    """Return two ranks' reports on three all-reduces of 1 GiB, whose median is 1.5 `seconds`: the slower rank
    takes 1.5, 3 and 1. place: of the second rank, whose adapters the first rank has, too."""
    times = [seconds, 3 * seconds, seconds]
    first = gpu(0, **{k: v for k, v in place.items() if k != "host"})
    return [
        {"place": first, "points": [[2**30, times, 0]]},
        {"place": gpu(1, **place), "points": [[2**30, [1.5 * times[0], *times[1:]], wrong]]},
    ]


GB = 2**30 / 1.5  # bytes/s, if `seconds` is 1
TCP, RDMA = {"interfaces": {"eth0": "25000"}}, {"infiniband": {"mlx5_0": "200 Gb/sec"}}


@pytest.mark.parametrize(
    ("rate", "words", "more", "mark", "step"),
    [
        (240e9, "via P2P/CUMEM", {}, "ok", ""),
        (151e9, "via P2P/CUMEM", {}, "ok", ""),  # just above half of 300 GB/s
        (149e9, "via P2P/CUMEM", {}, "warn", "nvlink"),
        (20e9, "via SHM/direct/direct", {}, "warn", "allow-task-sharing"),
        (1e9, "via NET/Socket/0", {"host": "n2"} | TCP, "warn", "NCCL_SOCKET_IFNAME"),
        (1e9, "via NET/IB/0", {"host": "n2"} | RDMA, "warn", "NCCL_IB_HCA"),
        (1e9, "via NET/Socket/0", {"host": "n2"}, "ok", ""),  # without an expected rate
        (240e9, "via P2P/CUMEM", {"wrong": 3}, "bad", "dcgmi"),
    ],
)
def test_what_is_said_of_a_measurement(rate, words, more, mark, step):
    report = Report()
    text = gpu_check.judge(report, gpu_check.HERE, seen(GB / rate, **more), way(words))
    item = report.item(gpu_check.HERE)
    assert (item.mark, report.ok) == (mark, mark != "bad") and step in item.administrator
    assert bool(item.student) == bool(item.administrator) == (mark != "ok")
    assert "1 GiB" in text and f"{rate / 1e9:.1f} GB/s" in text


def test_the_table_has_the_measured_beside_the_expected():
    results = [gpu_check.Point(4096, 2e-5, 4096 / 2e-5), gpu_check.Point(2**30, 2**30 / 240e9, 240e9)]
    _, *rows, last = gpu_check.table(results, Link("NVLink 3, 12 links", 300e9)).splitlines()
    assert [row.split() for row in rows] == [
        ["4", "KiB", "0.020", "ms", "204.8", "MB/s", "0%"],
        ["1", "GiB", "4.474", "ms", "240.0", "GB/s", "80%"],
    ]
    assert "300.0 GB/s" in last and "240.0 GB/s" in last
    assert "%" not in gpu_check.table(results, Link("some network"))


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A function machine(nvidia_smi=TEXT, sinfo=TEXT) that creates these commands on an otherwise empty
    PATH."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def play(**scripts):
        fakes.commands(tmp_path / "bin", **scripts)
        why = None if "sinfo" in scripts else "no sbatch"
        monkeypatch.setattr(gpu_check.client, "no_slurm", lambda: why)

    return play


ONE = "echo 'GPU 0: NVIDIA A40 (UUID: GPU-1)'"
TWO = f"{ONE}; echo 'GPU 1: NVIDIA A40 (UUID: GPU-2)'"
NODES = "echo 'cpu*|n0|(null)'; echo 'gpu|n1|gpu:a100:4(S:0-1)'; echo 'gpu|n2|gpu:4'; echo 'old|n3|gpu:1'"


@pytest.mark.parametrize(
    ("commands", "reason"),
    [
        ({}, "nvidia-smi on PATH; no sbatch"),
        ({"nvidia_smi": "echo 'NVIDIA-SMI has failed: no driver'; exit 9"}, "no driver"),
        ({"nvidia_smi": ONE}, "one GPU"),
        ({"sinfo": "echo 'cpu*|n0|(null)'"}, "no GPUs"),
        ({"sinfo": "echo 'gpu*|n0|gpu:1'"}, "one GPU"),
    ],
)
def test_where_no_two_gpus_are_one_line_says_so(machine, capsys, commands, reason):
    """Without two GPUs, does the command print only one line, with the reason, and return 1?"""
    machine(**commands)
    assert shell.main(["doctor", "--gpu"]) == 1
    output = capsys.readouterr()
    assert output.out == "" and output.err.count("\n") == 1 and reason in output.err


def test_what_can_be_measured(machine):
    """With Slurm, is the measurement made in a partition with GPUs, preferably the default one? Without
    Slurm, is it made on this machine?"""
    machine(nvidia_smi=TWO)
    here = dict(ranks_per_node=2, backend="local", env=dict(CUDA_VISIBLE_DEVICES="0,1"))
    assert gpu_check.missing() is None and gpu_check.layouts() == {gpu_check.HERE: here}
    machine(sinfo=NODES)
    of_slurm = dict(backend="slurm", gpus_per_rank=1, partition="gpu")
    both = {gpu_check.HERE: dict(ranks_per_node=2) | of_slurm, gpu_check.APART: {"nodes": 2} | of_slurm}
    assert gpu_check.missing() is None and gpu_check.layouts() == both
    machine(sinfo=NODES.replace("cpu*|n0|(null)", "fast*|n0|gpu:2"))
    assert "partition" not in gpu_check.layouts()[gpu_check.HERE]


def test_a_horovod_without_nccl_is_named(machine, monkeypatch):
    """If there are GPUs but Horovod lacks NCCL, does the doctor name the command that installs another
    environment, without submitting a job?"""
    machine(nvidia_smi=TWO)
    monkeypatch.setattr(findings, "built", lambda: (True, True, 0))
    monkeypatch.setattr(findings, "submit", None)
    report, tables = gpu_check.doctor()
    item = report.item("NCCL")
    assert not report.ok and tables == [] and "GPU=1" in item.administrator
    assert sys.executable in item.finding


def steps_seen(xla=True, factor=1.0, finite=True, **settings):
    """Return the training steps of two ranks. factor: the seconds of Horovod's steps divided by the seconds
    of Keras alone. finite: of the second rank's last loss."""
    known = {"TF32": True, "compute capability": [9, 0], "NCCL": 22105, "batch": 100, "device": "GPU"}
    steps = [
        {"network": network, "way": way, "seconds": 0.01 * (factor if way != gpu_steps.ALONE else 1),
         "xla": xla and way == gpu_steps.ALONE, "device": "GPU", "finite": True}
        for network in gpu_steps.NETWORKS
        for way in (gpu_steps.TAPE, gpu_steps.ALONE, gpu_steps.PARALLEL)
    ]  # fmt: skip
    ranks = [{"settings": known | settings, "steps": copy.deepcopy(steps)} for _ in range(2)]
    ranks[1]["steps"][-1]["finite"] = finite
    return ranks


@pytest.mark.parametrize(
    ("ranks", "subject", "mark", "value"),
    [
        (steps_seen(), "training step", "ok", "GPU"),
        (steps_seen(), "XLA", "ok", "1.0"),
        (steps_seen(factor=1.5), "XLA", "warn", "1.5"),
        (steps_seen(xla=False), "XLA", "warn", ""),
        (steps_seen(), "TF32", "ok", ""),
        (steps_seen(TF32=False), "TF32", "warn", ""),
        (steps_seen(**{"compute capability": [7, 0]}), "TF32", "warn", ""),
        (steps_seen(NCCL=0), "gradients", "warn", "NCCL"),
        (steps_seen(device="TPU"), "training step", "bad", "TPU"),
        (steps_seen(finite=False), "training step", "bad", gpu_steps.PARALLEL),
    ],
)
def test_what_is_said_of_the_training_steps(ranks, subject, mark, value):
    """Does the report have the expected finding for each result, and what to do unless all is well?"""
    report = Report()
    gpu_steps.judge(report, ranks)
    item = report.item(subject)
    assert item.mark == mark and value in item.finding
    assert bool(item.student) == bool(item.administrator) == (mark != "ok")


def test_the_table_counts_the_images_of_all_ranks():
    """Does the table count the images of all ranks: with 100 per rank in 10 ms, 20,000 images/s on two ranks
    and 10,000 on one?"""
    rows = [line.split() for line in gpu_steps.table(steps_seen()).splitlines()]
    assert [row[-1] for row in rows[1:4]] == ["20,000", "10,000", "20,000"]


@pytest.mark.ranks
def test_the_command_itself_on_cpus(tmp_path, monkeypatch, capsys, warm_ranks):
    """Does `doctor --gpu --small` run to its end on CPUs? Are the sums right, is each size and each kind of
    step timed on each rank, and are there no findings about GPUs?"""
    monkeypatch.setenv("CLUSTER_RUNS", str(tmp_path / "runs"))
    assert shell.main(["doctor", "--gpu", "--small"]) == 0
    text = capsys.readouterr().out
    assert text.count(gpu_steps.PARALLEL) == 2 and "KiB" in text and "TF32" not in text
    steps, sums = (job.results() for job in cluster.jobs())
    for rank in sums:
        assert [(size, wrong) for size, _, wrong in rank["points"]] == [(s, 0) for s in gpu_check.SIZES[:3]]
        assert all(len(times) == 2 and 0 < min(times) < 60 for _, times, _ in rank["points"])
    assert sums[0]["place"]["host"] == sums[1]["place"]["host"]
    for rank in steps:
        assert len(rank["steps"]) == 6 and all(0 < step["seconds"] < 60 for step in rank["steps"])
        assert all(step["finite"] and step["device"] == "CPU" for step in rank["steps"])


@pytest.fixture
def two_ranks(monkeypatch):
    """A function two_ranks(seen, local_rank, ids, nccl) that simulates Horovod on a rank that sees the GPUs
    `seen`, one of two ranks on its node.

    ids: the UUIDs of the ranks' GPUs. nccl: the version of NCCL, or 0 if Horovod lacks it. Returns a list
    that collects the rank's actions in order.
    """
    import horovod.tensorflow as hvd
    import tensorflow as tf

    def play(seen, local_rank=0, ids=("", ""), nccl=22105):
        done = []
        simulated = {
            (hvd, "init"): lambda: done.append("init"),
            (hvd, "size"): lambda: 2,
            (hvd, "local_size"): lambda: 2,
            (hvd, "local_rank"): lambda: local_rank,
            (hvd, "nccl_built"): lambda: nccl,
            (hvd, "allgather_object"): lambda one: [*ids],
            (hvd, "allreduce"): lambda x, op: done.append("all-reduce") or 2,
            (tf.config, "list_physical_devices"): lambda kind: seen,
            (tf.config, "set_visible_devices"): lambda gpu, kind: done.append(gpu),
            (tf.config.experimental, "set_memory_growth"): lambda gpu, on: done.append(f"{gpu} grows"),
        }
        for (module, name), function in simulated.items():
            monkeypatch.setattr(module, name, function)
        return done

    return play


@pytest.mark.parametrize(
    ("seen", "local_rank", "taken"),
    [
        ([], 1, []),
        (["a"], 1, ["a grows"]),
        (["a", "b"], 1, ["b", "b grows"]),
        (["a", "b"], 2, ["a", "a grows"]),
    ],
)
def test_a_rank_that_sees_several_gpus_takes_its_own(two_ranks, seen, local_rank, taken):
    """Does a rank that sees several GPUs choose its own and enable memory growth before any computation?
    TensorFlow permits neither afterwards."""
    done = two_ranks(seen, local_rank)
    rendezvous.start_horovod(2)
    assert done == ["init", *taken, "all-reduce"]


def test_two_ranks_on_one_gpu_are_refused_before_nccl_starts(two_ranks):
    """If two ranks share one GPU, does the error name the ranks and a solution? Do the ranks start if each
    has its own GPU, if the GPUs' IDs are unknown, or without NCCL?"""
    done = two_ranks(["a"], ids=("5f00aa11bb", "5f00aa11bb"))
    with pytest.raises(LaunchFailed, match=r"(?s)0, 1 .*5f00aa11.*rank=0"):
        rendezvous.start_horovod(2)
    assert "all-reduce" not in done
    for ids, nccl in [(("5f", "6f"), 22105), (("", ""), 22105), (("5f", "5f"), 0)]:
        done = two_ranks(["a"], ids=ids, nccl=nccl)
        rendezvous.start_horovod(2)
        assert done[-1] == "all-reduce"


VISIBLE, OF_SLURM = "CUDA_VISIBLE_DEVICES", ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")


@pytest.mark.parametrize(
    ("options", "given", "env", "visible"),
    [
        ({"gpus_per_rank": 0}, (), {VISIBLE: "0,1"}, "-1"),
        ({"gpus_per_rank": 1}, (), {VISIBLE: "1"}, "1"),
        ({"gpus_per_rank": 0}, {VISIBLE}, {VISIBLE: "0"}, "0"),
        ({}, (), {VISIBLE: "3", OF_SLURM[0]: "3"}, "3"),  # sbatch={"gres": "gpu:1"}
    ],
)
def test_a_job_without_gpus_sees_none(monkeypatch, options, given, env, visible):
    """Does a job without requested GPUs see no GPU, unless its `env` or Slurm names some?"""
    for name in OF_SLURM:
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    rendezvous.hide_gpus(options, given)
    assert os.environ[VISIBLE] == visible


def test_a_gpu_without_a_driver_has_no_id(monkeypatch):
    """Is a GPU's ID empty, without an error, if libcuda is missing or one of its calls fails?"""
    monkeypatch.setattr(rendezvous.ctypes, "CDLL", mock.Mock(side_effect=OSError))
    assert rendezvous.gpu_id(0) == ""
    monkeypatch.setattr(rendezvous.ctypes, "CDLL", lambda name: mock.Mock(cuInit=lambda flags: 100))
    assert rendezvous.gpu_id(0) == ""
