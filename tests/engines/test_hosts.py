"""Hosts that a launch names, and what Slurm says, read without any of them."""

import sys

import pytest

from course_utils import launch
from course_utils.engines import StartError, hosts, slurm, ssh

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("given", "size", "room"),
    [
        (["a:2", "b:2"], 4, {"a": 2, "b": 2}),
        (["b:2", "a:2"], 3, {"b": 2, "a": 1}),
        (["a:2", "b:2"], 2, {"a": 2}),
        (["a", "b"], 2, {"a": 1, "b": 1}),
        (["a:1", "b:1", "a:1"], 3, {"a": 2, "b": 1}),
        ("a:3", 3, {"a": 3}),
    ],
)
def test_hosts_are_filled_in_the_order_given(given, size, room):
    found = hosts.read_hosts(given, size)
    assert found == room and list(found) == list(room)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["a:2", "b:1"], "hosts: a:2, b:1 have room for 3 ranks, not for 4"),
        (["a:two"], "got 'a:two'"),
        ([":4"], "got ':4'"),
        (["-oProxyCommand=x:4"], "expected names with a number of ranks each"),
    ],
)
def test_hosts_that_cannot_be(given, said):
    with pytest.raises(ValueError, match=said):
        hosts.read_hosts(given, 4)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"engines": "ssh"}, "engines='ssh' needs names of hosts"),
        ({"hosts": []}, "needs names of hosts"),
        ({"hosts": ["a:1"]}, "have room for 1 rank, not for 2"),
        ({"hosts": ["a:2"], "engines": "slurm"}, "'slurm' chooses the hosts itself"),
        ({"start_timeout": 0}, "start_timeout: expected seconds above 0"),
    ],
)
def test_launch_refuses_before_anything_starts(arguments, said):
    with pytest.raises(ValueError, match=said):
        launch(2, **arguments)


def test_address_towards_this_machine_is_loopback():
    assert hosts.own_address(["127.0.0.1"]) == "127.0.0.1"


def test_host_without_a_known_name_gets_the_public_address():
    assert hosts.own_address(["nowhere.invalid"]) == hosts.public_address()


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("node", ("", "node", "")),
        ("me@node", ("me", "node", "")),
        ("node:2222", ("", "node", "2222")),
        ("me@node:2222", ("me", "node", "2222")),
    ],
)
def test_parts_of_a_host_in_a_profile(name, parts):
    assert ssh.parts(name) == parts


WORDS = """\
slurmstepd: error: something else
srun: error: node2: task 3: Killed
srun: error: node1: tasks 0-1,4: Exited with exit code 7
srun: error: node2: task 2: Segmentation fault (core dumped)
"""


@pytest.mark.parametrize(
    ("task", "code"), [(3, -9), (0, 7), (1, 7), (4, 7), (2, -11), (5, None)]
)
def test_how_a_task_ended(task, code):
    assert slurm.ending_of(task, WORDS) == code


# --- inside this machine ----------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "rate"),
    [(None, 0), ("400mbit", 50_000_000), ("1gbit", 125e6), ("0.5 Gbit/s", 62.5e6)],
)
def test_the_rate_of_a_cable(link, rate):
    assert hosts.read_link(link) == rate


@pytest.mark.parametrize("link", ["fast", "", "400", "0mbit", "1bit", "99gbit", 400])
def test_a_rate_that_cannot_be(link):
    with pytest.raises(ValueError, match='link: expected a rate from "1mbit"'):
        hosts.read_link(link)


@pytest.mark.parametrize(
    ("count", "size", "room"),
    [(2, 4, [2, 2]), (2, 5, [3, 2]), (3, 3, [1, 1, 1]), (1, 2, [2])],
)
def test_ranks_are_shared_out_evenly(count, size, room):
    found = hosts.share_out(count, size)
    assert found == {f"node{place}": n for place, n in enumerate(room)}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"hosts": 3}, "expected from 1 to 2 hosts for 2 ranks, got 3"),
        ({"hosts": 0}, "expected from 1 to 2 hosts"),
        ({"hosts": True}, "expected a number of hosts, as in launch"),
        ({"hosts": 1.5}, "expected a number of hosts, as in launch"),
        ({"hosts": 2, "engines": "ssh"}, "made inside this machine, for forked ranks"),
        ({"hosts": 2, "profile": "mine"}, "made inside this machine"),
        ({"hosts": 2, "link": "slow"}, "link: expected a rate"),
        ({"link": "1gbit"}, "only the cables of hosts inside this machine"),
        ({"hosts": ["a:2"], "link": "1gbit"}, "only the cables of hosts inside"),
        ({"hosts": 2, "backend": "nccl"}, "share its GPUs"),
    ],
)
def test_launch_refuses_hosts_that_it_cannot_make(arguments, said):
    with pytest.raises(ValueError, match=said):
        launch(2, **arguments)


def test_only_linux_has_such_hosts(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(StartError, match="hosts inside a machine need Linux"):
        launch(2, hosts=2)
