"""Test the description of a cluster and the files generated from it, partly by comparison with golden
files."""

import re
from pathlib import Path

import pytest

from cluster.staff.one_machine_slurm import __main__ as commands
from cluster.staff.one_machine_slurm import description, slurm_conf
from cluster.staff.one_machine_slurm.description import Cluster, Partition
from cluster.staff.one_machine_slurm.machine import Machine
from cluster.staff.services import HubError

GOLDEN = Path(__file__).parent / "golden"
V1 = Machine(Path("/state"), None, "cgroup v1", swap=True, hosts="127.0.1.1 laptop\n")
BARE = Machine(Path("/srv/s"), "box", "polling", "no cgroup can be made")
ONE = Cluster(nodes=1, gpus=0, partitions=(Partition("all", 90, 1),))


def whole(cluster, machine):
    return "".join(f"### {name}\n{text}" for name, text in slurm_conf.files(cluster, machine).items())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("default.txt", lambda: whole(Cluster(), V1)),
        ("bare.txt", lambda: whole(ONE, BARE)),
    ],
)
def test_golden(name, text):
    """Do the generated files equal their golden files? After an intended change, update the files in golden/
    by hand."""
    assert text() == (GOLDEN / name).read_text()


def settings(text):
    """Return {key: value} for the lines KEY=VALUE with one '='."""
    return dict(line.split("=", 1) for line in text.splitlines() if re.fullmatch(r"\w+=[^=]*", line))


def test_ports_do_not_meet():
    """Do all daemons get different ports, numbered from the description's port?"""
    c = Cluster(nodes=7, port=40000)
    ports = [c.port, c.database_port, *c.node_ports]
    assert len(set(ports)) == 2 + 7
    conf = settings(slurm_conf.slurm(c, V1))
    assert conf["SlurmctldPort"] == "40000" and conf["AccountingStoragePort"] == "40001"
    assert "Port=[40002-40008]" in slurm_conf.slurm(c, V1)


def test_only_the_highest_tier_is_safe():
    """With three tiers, can exactly the jobs of the lower two be preempted?"""
    tiers = tuple(Partition(n, 10, t) for n, t in (("a", 3), ("b", 2), ("c", 1)))
    lines = slurm_conf.partitions(Cluster(partitions=tiers)).splitlines()
    assert [re.search(r"PreemptMode=(\w+)", x)[1] for x in lines] == ["OFF", "REQUEUE", "REQUEUE"]


def test_memory_limits_by_what_the_machine_has():
    """Is swap limited if the kernel supports this, and systemd ignored if it does not run? Without cgroups,
    does Slurm itself kill jobs that use too much memory?"""
    assert "AllowedSwapSpace=0" in slurm_conf.cgroup(V1)
    assert "ConstrainSwapSpace=no" in slurm_conf.cgroup(Machine(Path("/s"), None, "cgroup v1"))
    assert "IgnoreSystemd=yes" in slurm_conf.cgroup(Machine(Path("/s"), None, "cgroup v2", systemd=False))
    assert "IgnoreSystemd" not in slurm_conf.cgroup(Machine(Path("/s"), None, "cgroup v2", systemd=True))
    fallback = slurm_conf.slurm(Cluster(), BARE)
    assert "OverMemoryKill" in fallback and "cgroup" not in fallback.replace("No cgroups", "")


def test_the_guide_has_the_partitions_of_the_default_description(capsys):
    """Does the command `guide` print a guide with the default description's nodes, partitions and limits?"""
    assert commands.main(["guide"]) == 0
    text, cluster = capsys.readouterr().out, Cluster()
    assert slurm_conf.partitions(cluster) in text and f"NodeName={cluster.node_list} CPUs=4" in text
    assert f"GrpTRES=gres/gpu={cluster.gpus_per_student}" in text


def test_description_survives_json():
    """Is a cluster's description unchanged after saving and reading it as JSON?"""
    c = Cluster(nodes=3, students=("student1",))
    assert description.from_values(description.as_values(c)) == c


def test_toml(tmp_path):
    """Does a TOML file set only the values that it names?"""
    (tmp_path / "c.toml").write_text('nodes = 2\n[[partitions]]\nname = "q"\nminutes = 5\ntier = 1\n')
    c = description.from_toml(tmp_path / "c.toml")
    assert (c.nodes, c.cpus, c.partitions) == (2, Cluster().cpus, (Partition("q", 5, 1),))


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"node": 3}, "node"),
        ({"nodez": 3}, "nodez"),
        ({"nodes": 0}, "nodes = 0"),
        ({"gpus": True}, "gpus"),
        ({"students": ["x; rm -rf /"]}, "x; rm"),
        ({"students": ["a\nb"]}, r"['a\nb']"),
        ({"students": "student1"}, "'student1'"),
        ({"name": "x\nSlurmUser=root"}, "SlurmUser"),
        ({"node": "n1"}, "'n1'"),
        ({"partitions": []}, "[]"),
        ({"partitions": [{"name": "a b", "minutes": 1, "tier": 1}]}, "a b"),
        ({"partitions": [{"name": n, "minutes": 1, "tier": 1} for n in ("A\nX=1", "b")]}, "X=1"),
        ({"partitions": [{"name": "a", "minutes": 1}]}, "partitions.tier"),
        ({"port": 65535}, "65535"),
        ({"memory_limit": "none"}, "memory_limit"),
    ],
)  # fmt: skip
def test_refused(values, named):
    """Is an invalid value of a description refused, with the value or its name? Is a line break in a value
    refused, because it would add lines to a configuration file?"""
    with pytest.raises(HubError, match=re.escape(named)):
        description.from_values(values)


def test_toml_that_is_none(tmp_path):
    """Is a TOML file that is invalid or missing reported with its name?"""
    (tmp_path / "c.toml").write_text("nodes: 2")
    for name in ("c.toml", "absent.toml"):
        with pytest.raises(HubError, match=name):
            description.from_toml(tmp_path / name)
