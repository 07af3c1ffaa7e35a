# ruff: noqa: E501 (one case stands on one line)
"""The likely cause of a stuck cell, from states alone."""

import pytest

from course_utils.stuck.causes import likely_cause
from course_utils.stuck.states import RankState

pytestmark = pytest.mark.unit

BRANCH = "if rank == 0:\n    dist.barrier()\n"


def waits(call: str = "barrier", line: int = 2, **more) -> RankState:
    return RankState("waits", call=call, line=line, **more)


MISSED, FINISHED = RankState("missed"), RankState("finished")
STOPPED, ABSENT = RankState("stopped"), RankState("absent")
RECV = {"call": "recv"}

CASES = [
    (
        {0: waits(), 1: RankState("silent")},
        "dist.barrier()",
        "rank 1 waits in C++ without giving Python's lock away",
    ),
    ({0: waits(), 1: MISSED}, "", "rank 1 left the cell before barrier"),
    (
        {0: waits(), 1: FINISHED, 2: MISSED},
        BRANCH,
        "line 2 stands under `if rank == 0:`, so rank 2 never came to barrier; "
        "every rank of the group has to call it",
    ),
    (
        {0: waits(), 1: MISSED},
        "if a:\n    f()\nelif b:\n    barrier()",
        "line 2 stands under `if a:`, so rank 1 never came to barrier; "
        "every rank of the group has to call it",
    ),
    (
        {0: waits(line=4), 1: MISSED},
        "if a:\n    f()\nelse:\n    barrier()",
        "line 4 stands under the else of `if a:`, so rank 1 never came to barrier; "
        "every rank of the group has to call it",
    ),
    (
        {0: waits(line=3), 1: MISSED},
        "for i in range(3):\n    if i < n:\n        barrier()",
        "line 3 stands under `if i < n:`, so rank 1 never came to barrier; "
        "every rank of the group has to call it",
    ),
    (
        {0: waits(), 1: MISSED, 2: MISSED},
        "while more():\n    barrier()",
        "the loop at line 1 makes more rounds on rank 0 than on ranks 1–2",
    ),
    (
        {0: waits(line=2, outer=4), 1: MISSED},
        "def f():\n    barrier()\nif rank == 0:\n    f()",
        "line 4 stands under `if rank == 0:`, so rank 1 never came to barrier; "
        "every rank of the group has to call it",
    ),
    (
        {0: waits("new_group"), 1: FINISHED},
        BRANCH,
        "line 2 stands under `if rank == 0:`, so rank 1 never came to new_group; "
        "every rank has to call it",
    ),
    (
        {0: waits("work.wait"), 1: FINISHED},
        BRANCH,
        "line 2 stands under `if rank == 0:`, so rank 1 took no part in what is "
        "waited for",
    ),
    (
        {0: FINISHED, 1: waits("all_reduce"), 2: waits("all_reduce")},
        BRANCH,
        "rank 0 ended the call in which ranks 1–2 wait: the ranks may disagree on "
        "shape or dtype",
    ),
    (
        {0: waits(peers={"src": 0}), 1: waits(peers={"src": 1})},
        "",
        "the ranks disagree on the root: rank 0 names 0, rank 1 names 1",
    ),
    (
        {0: waits("gather", peers={"group_dst": 1}, group=(0, 2)), 2: waits("gather", peers={"dst": 0}, group=(0, 2))},
        "",
        "the ranks disagree on the root: rank 0 names 2, rank 2 names 0",
    ),
    (
        {0: waits("all_reduce", 1), 1: waits("barrier", 2)},
        "",
        "the ranks call collectives in a different order: rank 0 is in all_reduce at "
        "line 1, rank 1 is in barrier at line 2",
    ),
    (
        {0: waits(group=(0, 1)), 1: waits()},
        "",
        "the ranks call the collective on different groups",
    ),
    (
        {0: waits(), 1: ABSENT, 2: ABSENT},
        "",
        "the cell ran on rank 0 only (--targets), and a collective needs every rank "
        "of its group",
    ),
    (
        {0: waits(), 1: STOPPED},
        BRANCH,
        "rank 1 was stopped from outside, as by SIGSTOP",
    ),
    (
        {0: waits(), 1: STOPPED, 2: STOPPED},
        BRANCH,
        "ranks 1–2 were stopped from outside, as by SIGSTOP",
    ),
    (
        {0: waits("recv", peers={"src": 1}), 1: FINISHED},
        "",
        "rank 0 expects that rank 1 sends, which it never does",
    ),
    (
        {0: waits("send", peers={"dst": 1}), 1: FINISHED},
        "",
        "rank 0 expects that rank 1 receives, which it never does",
    ),
    (
        {0: waits("recv"), 1: FINISHED},
        BRANCH,
        "rank 0 receives from any rank, and none sends",
    ),
    (
        {0: waits("recv", peers={"src": 1}), 1: waits("recv", peers={"src": 0})},
        "",
        "every rank receives first, so nobody comes to its send",
    ),
    (
        {0: waits("send", peers={"dst": 1}), 1: waits("isend", peers={"dst": 0})},
        "",
        "every rank sends first, so nobody comes to its recv",
    ),
    (
        {0: waits("recv", peers={"src": 1}), 1: waits("barrier", 4)},
        "",
        "rank 0 expects that rank 1 sends, but rank 1 waits in barrier at line 4",
    ),
    ({0: FINISHED, 1: FINISHED}, BRANCH, ""),
    ({0: waits(), 1: waits()}, BRANCH, ""),
    ({0: waits(line=0), 1: MISSED}, "", ""),
    ({0: waits(), 1: MISSED}, "%matplotlib\nx", "rank 1 left the cell before barrier"),
]  # fmt: skip


@pytest.mark.parametrize(("states", "source", "cause"), CASES)
def test_likely_cause(states, source, cause):
    assert likely_cause(states, source) == cause
