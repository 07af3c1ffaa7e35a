"""Hints and verdicts on made-up answers: no processes."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_utils.exercises import hints, lessons, verdict
from course_utils.exercises.answers import Answer, Attempt, Case, Form, Other, Outside
from course_utils.exercises.values import plain, same
from course_utils.exercises.wording import kind, listed, words
from course_utils.pictures.layout import Snapshot
from course_utils.replay.call import Call
from course_utils.stuck.states import RankState

pytestmark = pytest.mark.unit

SIZE = 4
EVERY_PAIR = tuple(itertools.combinations(range(SIZE), 2))
CASE = Case(SIZE, (2,), "int64")


def tensor(*values, dtype="int64", shape=None) -> Snapshot:
    shape = (len(values),) if shape is None else shape
    return Snapshot(shape, dtype, values, "cpu")


RETURNED = """
def gather_all(shard):
    return dist.all_gather(full, shard)
"""
PRINTED = "def gather_all(shard):\n    print(shard)"
DROPPED = "def gather_all(shard):\n    dist.isend(shard, 1)"
UNDER_IF = "def gather_all(shard):\n    if rank == 0:\n        dist.gather(shard)"
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
    return Attempt(case, tuple(answers), tuple(passed), "gather_all")


def why(exercise: str, *args, **kwargs) -> str:
    return hints.reason(lessons.find(exercise), attempt(*args, **kwargs))


@pytest.mark.parametrize(
    ("result", "facts", "hint"),
    [
        ([SHARDS[3]] * 4, {"aliases": EVERY_PAIR}, "Every item of the list"),
        (SHARDS, {"aliases": ((0, 2),)}, "On rank 0, items 0 and 2 are the same"),
        (SHARDS, {"shares": True}, "shares memory with the input"),
        (SHARDS, {"changed": "values"}, "changed its input"),
        (SHARDS, {"changed": "grad"}, "left a gradient in `.grad` of its input"),
        (SHARDS, {"changed": "requires_grad"}, "turned on `requires_grad`"),
        (SHARDS, {"pending": ("irecv",)}, "never waits for the work that irecv"),
        ([SHARDS[3]] * 4, {}, "Every item of rank 0's list is rank 3's shard"),
        ([SHARDS[0]] * 2 + SHARDS[2:], {}, "nothing of rank 1 is in the result"),
        (tensor(1, 2), {}, "is a tensor of shape (2,), where a list of 4 is expected"),
        (SHARDS[:2], {}, "has 2 items; expected are 4"),
        (SHARDS[::-1], {}, "ranks 3, 2, 1, 0, in this order"),
        ([tensor(0, 0)] * 4, {}, "there are zeros instead"),
        ([tensor(10.0, 11.0, dtype="float32")] * 4, {}, "The dtype has changed"),
        ([tensor(*range(8), shape=(4, 2))] * 4, {}, "The shape has changed"),
        (None, {"source": RETURNED}, "all_gather itself returns None: it fills the"),
        (None, {"source": PRINTED}, "no return with a result in it, and prints"),
    ],
)
def test_hint_of_a_result(result, facts, hint):
    assert hint in why("3.1", [result] * SIZE, **facts)


def test_where_nothing_fits_nothing_is_said():
    """A cause that was made up sends the learner the wrong way."""
    odd = [tensor(10, 99), *SHARDS[1:]]
    made, entry = attempt([odd] * SIZE), lessons.find("3.1")
    assert hints.reason(entry, made) == ""
    said = verdict.wrong(entry, made, []).text
    assert "No known cause fits" in said and "Why" not in said


def test_a_global_or_a_number_of_another_world_comes_first():
    wrong = [SHARDS[:3]] * SIZE
    earlier = [Case(3, (2,)), Case(2, (2,))]
    assert "has 2 items" not in why("3.1", wrong, earlier)
    found = why(
        "3.1", wrong, earlier, outside=(Outside("n", "number", 3, "gather_all"),)
    )
    assert found.startswith("The function reads the variable `n` of the ranks, which")
    found = why("3.1", wrong, earlier, outside=(Outside("n", "number", 3, "plain"),))
    assert found.startswith("`plain`, which the function calls, reads the variable")
    fixed = "def gather_all(shard):\n    return [shard] * 3"
    found = why("3.1", wrong, earlier[:1], source=fixed)
    assert (
        found == "There is a 3 in the function: it is right on 3 ranks and wrong on 4."
    )
    assert why("3.1", wrong, [CASE]).startswith("The list of rank 0 has 3 items")


@pytest.mark.parametrize("exercise", ["3.1", "11.2"])
def test_a_second_call(exercise):
    made = Attempt(CASE, tuple(Answer("returned", changed="grad") for _ in range(4)))
    again = Attempt(CASE, made.answers, again=True)
    said = hints.reason(lessons.find(exercise), again)
    assert said.startswith("A second call with the same input gives another result: ")
    assert "changed the input on ranks 0–3" in said


def states(*names: str, call: str = "gather", peer: str = "", **facts) -> Attempt:
    """Return an attempt that ended in these states; who waits is in `call`."""
    answers = []
    for rank, name in enumerate(names):
        peers = {peer: (rank + 1) % len(names)} if peer else {}
        waiting = RankState("waits", call=call, peers=peers, line=3, outer=3)
        answers.append(
            Answer(name, waiting=waiting if name == "waited" else None, **facts)
        )
    return Attempt(CASE, tuple(answers), (), "gather_all")


def raised(error: str, **facts) -> Attempt:
    return Attempt(
        CASE, tuple(Answer("raised", error=error, **facts) for _ in range(SIZE))
    )


GATHERED = Call("all_gather", {"tensor": Form((2,), "int64"), "tensor_list": ()})
ONE = Call(
    "all_gather_single",
    {"output_tensor": Form((4, 2), "int64"), "input_tensor": Form((2,), "int64")},
)


@pytest.mark.parametrize(
    ("seen", "hint"),
    [
        (states("died", "waited", "returned", "stuck"), "ended the process of rank 0."),
        (
            states("died", place="8 vs 4. Received data size doesn't match"),
            "Rank 0 was sent 8 bytes and receives into 4, so torch ended its process",
        ),
        (states("looped", "waited", "stuck", "waited"), "Ranks 0, 2 never came to an"),
        (states(*["waited"] * 4, call="recv", peer="src"), "Every rank receives first"),
        (states(*["waited"] * 4, call="send", peer="dst"), "Every rank sends first"),
        (
            states(*["waited"] * 4, call="recv", peer="src", source=DROPPED),
            "Nobody waits for the work that isend returns",
        ),
        (states(*["waited"] * 4, call="barrier"), "Ranks 0–3 are all in barrier,"),
        (
            states("waited", "returned", "waited", "returned", source=UNDER_IF),
            "Line 3 stands under `if rank == 0:`, so ranks 1, 3 never came to gather",
        ),
        (states("waited", "returned"), "Rank 1 returned before gather."),
        (
            states("waited", "raised", "returned"),
            "Rank 1 failed, and so rank 0 waited in gather in vain.",
        ),
        (raised("NameError\n  name 'dist' is not defined"), "run the imports again"),
        (
            raised(
                "all_gather did not run: ranks 0–3 passed a list whose length is not",
                tried=(GATHERED,),
            ),
            "must have one tensor for each of the 4 ranks, and has 0",
        ),
        (
            raised("RuntimeError\n  internals", tried=(ONE,)),
            "has shape (4, 2); for 4 shards (2,) it must be (8,)",
        ),
        (raised("ValueError\n  something else"), ""),
    ],
)
def test_hint_of_an_ending(seen, hint):
    found = hints.reason(lessons.find("3.1"), seen)
    assert hint in found
    assert bool(hint) == bool(found)


def test_values_that_look_alike_are_told_apart():
    """Two lines that read the same would tell nothing."""
    for one, other in (
        (tensor(1.0, dtype="float32"), tensor(1.0, dtype="float64")),
        (tensor(5, shape=()), 5),
    ):
        answers = (Answer("returned", expected=one, yours=other),)
        said = verdict.wrong(lessons.find("3.1"), Attempt(CASE, answers), []).text
        lines = [line.split(maxsplit=1)[1] for line in said.splitlines()[2:4]]
        assert lines[0] != lines[1]


def test_same_with_a_tolerance():
    assert same(0.1 + 0.2, 0.3, 1e-9) and not same(0.1 + 0.2, 0.3)
    assert not same(1.0, 1, 1e-9)
    one = torch.tensor([1.0, 0.0])
    assert same(one, one + 1e-7, 1e-5) is False, "zero stays zero"
    assert same(one, one * (1 + 1e-6), 1e-5)
    assert not same(one, one.double(), 1e-5)


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
    assert kind(True) == "a truth" and kind(1.5) == "a float"
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


def test_a_stub_beside_a_function_in_the_notebook():
    """As where the answer stands in a cell without %%px."""
    entry = lessons.find("3.1")
    assert verdict.not_started(entry, False).why == ""
    said = verdict.not_started(entry, True)
    assert said.state == "not started" and said.why.endswith("lack %%px?")


def test_cases_fit_the_world():
    entry = lessons.find("3.1")
    assert {case.world_size for case in entry.cases(3)} == {2, 3}
    assert len(entry.cases(8)) == len(entry.cases(4)) == 12
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
    st.lists(st.floats(), max_size=4).map(lambda v: tensor(*v, dtype="float64")),
    st.builds(lambda value: tensor(value, dtype="float64", shape=()), st.floats()),
)
VALUES = st.recursive(
    SIMPLE,
    lambda inner: st.lists(inner, max_size=5) | st.tuples(inner, inner),
    max_leaves=8,
)
IDS = [entry.id for lesson in lessons.LESSONS for entry in lesson.EXERCISES]
JOIN = Call(
    "init_process_group",
    {"init_method": None, "store": None, "rank": -1, "world_size": 3},
)
PAIR = Call("new_group", {"ranks": (0, "x"), "use_local_synchronization": False})
SEND = Call("P2POp", {"op": "isend", "peer": 3})
CAST = Call("broadcast", {"src": 0, "group_src": None})
CALLS = st.lists(st.sampled_from([JOIN, PAIR, SEND, CAST]), max_size=2)
STATES = ("returned", "raised", "waited", "looped", "stuck", "died")
ERRORS = (
    "",
    "the ranks disagree on the shape and dtype of broadcast, so it did not run",
    "gather did not run: ranks 0–1, 3 passed a list whose length is not",
    "AttributeError: 'NoneType' object",
    "NameError: name 'dist' is not defined",
)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    st.sampled_from(IDS),
    st.integers(0, 40),
    st.lists(
        st.tuples(st.sampled_from(STATES), VALUES, CALLS, st.sampled_from(ERRORS)),
        min_size=4,
        max_size=4,
    ),
    st.booleans(),
)
def test_no_answer_breaks_the_verdict(exercise, which, seen, again):
    """Whatever the ranks answer, there is a verdict, the same each time."""
    entry = lessons.find(exercise)
    cases = entry.cases(4)
    case = cases[which % len(cases)]
    inputs = entry.inputs(case, "/some/path")
    expected = entry.oracle(case, inputs)
    answers = [
        Answer(
            state,
            inputs=plain(inputs[rank]),
            expected=plain(expected[rank]),
            yours=value if state == "returned" else None,
            calls=tuple(calls),
            tried=(GATHERED, ONE)[: which % 3],
            error=error,
            waiting=RankState("waits", call="recv", peers={"src": 1}, line=2, outer=2),
        )
        for rank, (state, value, calls, error) in enumerate(seen[: case.world_size])
    ]
    made = Attempt(case, tuple(answers), tuple(cases[: which % 3]), "f", again)
    said = repr(verdict.wrong(entry, made, []))
    assert said.startswith(f"{exercise} ")
    assert said == repr(verdict.wrong(entry, made, []))
    for hint in (*entry.rules, *entry.stops, *entry.forms, *entry.hints):
        assert (hint(made) or ".").endswith((".", "expected."))
