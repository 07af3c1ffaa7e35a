"""Hosts that a launch names, and what Slurm says, read without any of them."""

import pytest

from course_utils import launch
from course_utils.engines import hosts, slurm, ssh

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
