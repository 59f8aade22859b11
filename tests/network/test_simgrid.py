"""Virtual time compared with SimGrid, an independent simulator: within 1% in twelve cases.

The comparison covers when messages begin, how they share links and when they end. Both simulators get the
same routes.
"""

import dataclasses
import json

import pytest

from cluster.network import simulate

from . import cases, simgrid_table

RECORD = json.loads(simgrid_table.TABLE.read_text())


def test_the_table_has_all_cases():
    """Does the recorded table contain all twelve cases, SimGrid's version and configuration, and the date?"""
    assert list(RECORD["seconds"]) == list(cases.CASES) and len(cases.CASES) == 12
    assert RECORD["versions"]["simgrid"] and RECORD["configuration"] and RECORD["date"]


@pytest.mark.parametrize("name", cases.CASES)
def test_within_a_percent_of_the_record(name):
    """Is virtual time within 1% of SimGrid's recorded time?"""
    assert simgrid_table.virtual(name) == pytest.approx(RECORD["seconds"][name]["simgrid"], rel=0.01)


@pytest.mark.parametrize("name", cases.CASES)
def test_simgrid_says_so_today(name):
    """If SimGrid is installed, does it still give the recorded result?"""
    if simgrid_table.version() is None:
        pytest.skip("needs Debian's python3-simgrid")
    assert simgrid_table.ask(name)["seconds"] == pytest.approx(RECORD["seconds"][name]["simgrid"], rel=1e-6)


def test_a_percent_is_noticed():
    """Would the comparison detect a bandwidth that is wrong by 2%?"""
    program, ranks, size, network, _ = cases.CASES["ring, 16 ranks"]
    slow = dataclasses.replace(network, time_per_byte=1.02 * network.time_per_byte)
    x = simgrid_table.Placeholder(size, "u1")
    time = simulate(cases.function(program), x, ranks=ranks, network=slow).time
    assert time != pytest.approx(RECORD["seconds"]["ring, 16 ranks"]["simgrid"], rel=0.01)
