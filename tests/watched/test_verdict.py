"""Who waits in vain, and when that is sure."""

import pytest

from course_utils.stuck.states import RankState
from course_utils.watched import verdict
from course_utils.watched.verdict import Observed, in_vain

pytestmark = pytest.mark.unit


def waits(call: str = "barrier", **more) -> RankState:
    return RankState("waits", call=call, line=2, **more)


RUNS, FINISHED = RankState("runs"), RankState("finished")
STOPPED, DIED = RankState("stopped"), RankState("died")
PAIR = {"group": (0, 1)}
CASES = [  # states by rank, and who waits in vain after 30 seconds of 30
    ([waits(), FINISHED], {0}),
    ([waits(), RUNS], set()),
    ([waits(), STOPPED], {0}),
    ([waits(), DIED, waits()], {0, 2}),
    ([waits(), waits("all_reduce")], {0, 1}),
    ([waits(), waits()], set()),  # it may be a long transfer
    ([waits("recv", peers={"src": 1}), waits("recv", peers={"src": 0})], {0, 1}),
    ([waits("recv", peers={"src": 1}), FINISHED, RUNS], {0}),
    ([waits("recv", peers={"src": 1}), RUNS], set()),
    # a chain: 0 waits for 1, which waits for 2, which computes
    (
        [waits("recv", peers={"src": 1}), waits("recv", peers={"src": 2}), RUNS],
        set(),
    ),
    ([waits("all_reduce", **PAIR), FINISHED, RUNS], {0}),
    ([waits("all_reduce", **PAIR), RUNS, FINISHED], set()),
    ([waits("all_reduce", **PAIR), waits("recv", peers={"src": 0}), RUNS], {0, 1}),
    ([waits("recv"), FINISHED, RUNS], set()),  # any of them may send
    ([waits("work.wait"), waits("work.wait")], {0, 1}),
]


@pytest.mark.parametrize(("states", "expected"), CASES)
def test_in_vain(states, expected):
    by_rank = dict(enumerate(states))
    assert in_vain(by_rank, dict.fromkeys(by_rank, 30.0), 30.0) == expected
    assert in_vain(by_rank, dict.fromkeys(by_rank, 29.9), 30.0) == set()


def test_all_in_one_collective_have_three_times_as_long():
    states = {0: waits(), 1: waits()}
    assert in_vain(states, {0: 89.9, 1: 90.0}, 30.0) == set()
    assert in_vain(states, {0: 90.0, 1: 90.0}, 30.0) == {0, 1}


def told(kind: str, beat: int, waited: float = 30.0, **more) -> dict:
    return {"kind": kind, "beat": beat, "waited": waited, "begun": {}, **more}


def in_barrier(beat: int) -> dict:
    return told("waits", beat, call="barrier", group_name="0")


def test_what_is_not_fresh_runs(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(verdict.time, "monotonic", lambda: float(next(clock)) / 4)
    seen = Observed(3)
    seen.update({0: in_barrier(1), 1: told("finished", 1)})
    kinds = [state.kind for state in seen.states().values()]
    assert kinds == ["runs", "finished", "runs"], "no change of a beat was seen"
    seen.update({0: in_barrier(2), 1: told("finished", 1)})
    assert seen.states()[0].kind == "waits"
    for _ in range(14):
        verdict.time.monotonic()
    assert seen.states()[0].kind == "runs", "nothing was heard for seconds"


def test_it_is_sure_once_all_have_looked_again(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(verdict.time, "monotonic", lambda: now[0])
    seen = Observed(2)

    def after(seconds: float, beat: int, other: str = "finished"):
        now[0] += seconds
        seen.update({0: in_barrier(beat), 1: told(other, 1)})
        return seen.suspicion(30.0)

    after(0.0, 1)
    first = after(0.25, 2)
    assert first.stuck == {0}
    assert not first.confirmed(after(0.25, 4)), "too early"
    assert first.confirmed(after(1.0, 5))
    assert not first.confirmed(after(0.25, 3)), "it has not looked again"
    assert not first.confirmed(after(0.25, 6, other="failed")), "another end"


def test_who_finished_before_the_call_missed_it():
    seen = Observed(2)
    for beat in (1, 2):
        waiting = {**in_barrier(beat), "begun": {"0": 4}}
        seen.update({0: waiting, 1: {**told("finished", 1), "begun": {"0": 3}}})
    assert seen.states()[1].kind == "missed"
    for beat in (3, 4):
        waiting = {**in_barrier(beat), "begun": {"0": 3}}
        seen.update({0: waiting, 1: {**told("finished", 1), "begun": {"0": 3}}})
    assert seen.states()[1].kind == "finished"
