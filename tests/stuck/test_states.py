# ruff: noqa: E501 (one case stands on one line)
"""States of ranks, and the words for them."""

import pytest

from course_utils.stuck.states import (
    RankState,
    awaited,
    having,
    lines,
    sentence,
    waits_for,
)

pytestmark = pytest.mark.unit


def waits(call: str = "barrier", **more) -> RankState:
    return RankState("waits", call=call, line=2, **more)


FINISHED, MISSED = RankState("finished"), RankState("missed")


@pytest.mark.parametrize(
    ("state", "one", "many"),
    [
        (waits(), "waits in barrier at line 2 for 5 s", "wait in barrier at line 2 for 5 s"),
        (RankState("runs", line=3), "computes at line 3", "compute at line 3"),
        (RankState("runs"), "computes", "compute"),
        (FINISHED, "finished", "finished"),
        (MISSED, "finished without calling it", "finished without calling it"),
        (RankState("failed"), "failed", "failed"),
        (RankState("died", ending="signal 9"), "died (signal 9)", "died (signal 9)"),
        (RankState("stopped"), "is stopped and cannot answer", "are stopped and cannot answer"),
        (RankState("absent"), "did not run this cell", "did not run this cell"),
    ],
)  # fmt: skip
def test_sentence(state, one, many):
    assert sentence(state, False, "for 5 s") == one
    assert sentence(state, True, "for 5 s") == many


@pytest.mark.parametrize(
    ("state", "name", "peer"),
    [
        (waits(), "barrier", None),
        (waits("broadcast", peers={"src": 0}), "broadcast(src=0)", 0),
        (waits("broadcast", peers={"group_src": 1}), "broadcast(src=1)", 1),
        (
            waits("broadcast", peers={"group_src": 1}, group=(0, 3)),
            "broadcast(src=3, group of ranks 0, 3)",
            3,
        ),
        (waits("all_reduce", group=(1, 2)), "all_reduce(group of ranks 1–2)", None),
        (waits("send", peers={"dst": 2, "group_dst": 2}), "send(dst=2)", 2),
    ],
)
def test_name_and_peer(state, name, peer):
    assert (state.name, state.peer) == (name, peer)


def test_lines_merge_ranks_that_do_the_same():
    states = {0: waits(text="a", outer=3), 1: FINISHED, 2: waits(text="b", outer=4)}
    assert lines(states, "for 1 s") == [
        "[ranks 0, 2] wait in barrier at line 2 for 1 s",
        "[rank 1] finished",
    ]


def test_having_keeps_the_order_of_ranks():
    states = {0: waits(), 1: FINISHED, 2: MISSED, 3: waits()}
    assert having(states, "missed", "waits") == [0, 2, 3]
    assert having(states, "runs") == []


@pytest.mark.parametrize(
    ("states", "text"),
    [
        ({0: waits(), 1: MISSED, 2: MISSED}, "rank 0 waits for ranks 1–2"),
        ({0: waits(), 1: FINISHED, 2: MISSED}, "rank 0 waits for rank 2"),
        ({0: waits(), 1: FINISHED}, "rank 0 waits for rank 1"),
        ({0: waits(), 1: waits()}, "ranks 0–1 wait for one another"),
        ({0: waits()}, "rank 0 waits for nobody that will come"),
        (
            {0: waits("recv", peers={"src": 2}), 1: FINISHED, 2: FINISHED},
            "rank 0 waits for rank 2",
        ),
        (
            {0: waits("recv", peers={"src": 1}), 1: waits("recv", peers={"src": 2}), 2: FINISHED},
            "ranks 0–1 wait for rank 2",
        ),
        ({0: waits("recv"), 1: FINISHED, 2: FINISHED}, "rank 0 waits for ranks 1–2"),
        ({0: FINISHED, 1: RankState("stopped")}, "rank 1 does not go on"),
    ],
)  # fmt: skip
def test_waits_for(states, text):
    assert waits_for(states) == text


def test_awaited_of_a_message_and_a_collective():
    states = {0: waits("recv", peers={"src": 1}), 1: waits(), 2: MISSED}
    assert awaited(states) == [2]
