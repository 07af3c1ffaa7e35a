"""Hints and verdicts on made-up answers: no processes."""

import dataclasses
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_utils.exercises import lessons, verdict
from course_utils.exercises.answers import (
    Answer,
    Attempt,
    Case,
    Other,
    kind,
    listed,
    words,
)
from course_utils.pictures.layout import Snapshot
from course_utils.replay.call import Call

pytestmark = pytest.mark.unit

SIZE = 4
EVERY_PAIR = tuple(itertools.combinations(range(SIZE), 2))
CASE = Case(SIZE, (2,), "int64")


def tensor(*values, dtype="int64", shape=None) -> Snapshot:
    shape = (len(values),) if shape is None else shape
    return Snapshot(shape, dtype, values, "cpu")


SHARDS = [tensor(100 * rank + 10, 100 * rank + 11) for rank in range(SIZE)]


def attempt(yours, passed=(), case=CASE, **facts) -> Attempt:
    """Return an attempt at gathering the shards; `yours` by rank."""
    answers = [
        Answer(
            "returned",
            right=result == SHARDS and not facts,
            inputs=(SHARDS[rank],),
            expected=list(SHARDS),
            yours=result,
            **facts,
        )
        for rank, result in enumerate(yours)
    ]
    return Attempt(case, tuple(answers), tuple(passed))


def why(exercise: str, *args, **kwargs) -> str:
    return verdict.reason(lessons.find(exercise), attempt(*args, **kwargs))


@pytest.mark.parametrize(
    ("result", "facts", "hint"),
    [
        ([SHARDS[3]] * 4, {"aliases": EVERY_PAIR}, "Every item of the list"),
        (SHARDS, {"aliases": ((0, 2),)}, "On rank 0, items 0 and 2 are the same"),
        (SHARDS, {"shares": True}, "shares memory with the input"),
        (SHARDS, {"changed": True}, "changed its input"),
        ([SHARDS[3]] * 4, {}, "Every item of rank 0's list is rank 3's shard"),
        (tensor(1, 2), {}, "is a tensor of shape (2,), where a list of 4 is expected"),
        (SHARDS[:2], {}, "has 2 items; expected are 4"),
        (SHARDS[::-1], {}, "ranks 3, 2, 1, 0, in this order"),
        ([tensor(0, 0)] * 4, {}, "is all zeros"),
        ([tensor(10.0, 11.0, dtype="float32")] * 4, {}, "The dtype has changed"),
        ([tensor(10, 11, shape=(2, 1))] * 4, {}, "The shape has changed"),
        ([tensor(7, 8)] * 4, {}, ""),
    ],
)
def test_hint_of_a_result(result, facts, hint):
    found = why("3.1", [result] * SIZE, **facts)
    assert hint in found
    assert bool(hint) == bool(found)


def test_a_fixed_world_size_comes_before_what_follows_from_it():
    wrong = [SHARDS[:3]] * SIZE
    earlier = [Case(3, (2,)), Case(2, (2,))]
    assert why("3.1", wrong, earlier).startswith("It is right on 2 and 3 ranks and")
    assert "reads `n`, which is 3 in the" in why(
        "3.1", wrong, earlier, outside={"m": 7, "n": 3}
    )
    assert (
        why("3.1", wrong, [CASE]) == "The list of rank 0 has 3 items; expected are 4."
    )


def states(*names: str, **facts) -> Attempt:
    return Attempt(CASE, tuple(Answer(name, **facts) for name in names))


@pytest.mark.parametrize(
    ("seen", "hint"),
    [
        (states("died", "waited", "returned", "stuck"), "ended the process of rank 0."),
        (states("looped", "waited", "stuck", "waited"), "Ranks 0, 2 never came to an"),
        (states(*["waited"] * 4, error="recv(src=1)"), "Every rank waits to receive"),
        (states(*["waited"] * 4, error="send(dst=1)"), "until its message is taken"),
        (states(*["waited"] * 4, error="barrier()"), "All ranks are in barrier,"),
        (
            states("waited", "returned", "waited", "returned", error="gather()"),
            "Ranks 0, 2 waited in gather; ranks 1, 3 returned without calling it.",
        ),
        (
            states("waited", "returned", error="f()", calls=(Call("f", {}),)),
            "Rank 0 waited in f; rank 1 returned without calling it as often.",
        ),
        (
            states("waited", "raised", "returned", error="gather()"),
            "Rank 1 failed, and so rank 0 waited in gather in vain.",
        ),
    ],
)
def test_hint_of_an_ending(seen, hint):
    assert hint in verdict.reason(lessons.find("3.1"), seen)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (tensor(1, 2, 3, 4, shape=(2, 2)), "[[1, 2], [3, 4]]"),
        (tensor(5, shape=()), "5"),
        (tensor(shape=(0, 3)), "[]"),
        (
            Snapshot((9,), "int64", (1, 2), "cpu", ((0, 8),)),
            "tensor of shape (9,), int64",
        ),
        ((1,), "(1,)"),
        ([1, ("a", None)], "[1, ('a', None)]"),
        (Other("Thing", "<Thing at 0x7fe3a0>"), "<Thing at …>"),
        ("x" * 200, "'" + "x" * 98 + "…"),
    ],
)
def test_words(value, text):
    assert words(value) == text


def test_kind_and_listed():
    assert kind(True) == "a truth" and kind(1.5) == "a number"
    assert kind(Other("dict", "{}")) == "a dict"
    assert listed({4, 2, 3}) == "2, 3 and 4" and listed([1]) == "1"


def test_where_the_function_is_missing():
    entry = lessons.find("3.1")
    some = verdict.missing(entry, ["ready", "missing", "ready", "ready"], True)
    assert some.text == (
        "3.1 cannot be checked: rank 1 has no function gather_all\n"
        "  It is defined in the notebook's own process: that cell lacks %%px."
    )
    assert verdict.missing(entry, ["ready"] * 4, False) is None


def test_cases_fit_the_world():
    entry = lessons.find("3.1")
    assert {case.world_size for case in entry.cases(3)} == {2, 3}
    assert len(entry.cases(8)) == len(entry.cases(4)) == 9
    assert entry.cases(1) == []


def test_every_exercise_is_named_once():
    entries = [entry for lesson in lessons.LESSONS for entry in lesson.EXERCISES]
    for field in ("id", "function"):
        names = [getattr(entry, field) for entry in entries]
        assert len(set(names)) == len(names)
    with pytest.raises(ValueError, match="there is no exercise '3'"):
        lessons.find("3")


SIMPLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 5000),
    st.floats(allow_nan=True),
    st.text(max_size=4),
    st.just(Other("dict", "{1: 2}")),
    st.sampled_from(SHARDS),
    st.builds(lambda n: tensor(*range(n)), st.integers(0, 5)),
)
VALUES = st.recursive(
    SIMPLE,
    lambda inner: st.lists(inner, max_size=5) | st.tuples(inner, inner),
    max_leaves=8,
)
EXPECTED = {
    "1.1": [(rank, 4000 + rank) for rank in range(SIZE)],
    "2.1": [(rank, SIZE) for rank in range(SIZE)],
    "2.2": [(0, 2), (-1, 0), (1, 2), (-1, 0)],
    "3.1": [list(SHARDS)] * SIZE,
    "3.2": [list(SHARDS)] * SIZE,
}
JOIN = Call(
    "init_process_group",
    {"init_method": None, "store": None, "rank": -1, "world_size": 3},
)
PAIR = Call("new_group", {"ranks": (0, "x"), "use_local_synchronization": False})
SEND = Call("P2POp", {"op": "isend", "peer": 3})
CALLS = st.lists(st.sampled_from([JOIN, PAIR, SEND]), max_size=2)
STATES = ("returned", "raised", "waited", "looped", "stuck", "died")


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(sorted(EXPECTED)),
    st.lists(st.tuples(st.sampled_from(STATES), VALUES, CALLS), min_size=4, max_size=4),
)
def test_no_answer_breaks_the_verdict(exercise, seen):
    """Whatever the ranks answer, there is a verdict, the same each time."""
    answers = [
        Answer(
            state,
            inputs=("/some/path",) if exercise == "2.1" else (SHARDS[rank],),
            expected=EXPECTED[exercise][rank],
            yours=value if state == "returned" else None,
            calls=tuple(calls),
            error="recv(src=1)",
        )
        for rank, (state, value, calls) in enumerate(seen)
    ]
    entry = lessons.find(exercise)
    made = Attempt(CASE, tuple(answers))
    said = repr(verdict.wrong(entry, made, []))
    assert said.startswith(f"{exercise} ")
    assert said == repr(verdict.wrong(entry, made, []))
    for hint in (*entry.rules, *entry.hints):
        sentence = hint(dataclasses.replace(made, passed=(Case(3), Case(2))))
        assert sentence is None or sentence.endswith((".", "expected."))
