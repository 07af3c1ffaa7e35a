"""Exercises of others: registered, checked on real ranks, and refused in words."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from course_utils import check
from course_utils.exercises import Exercise, known, lessons, register
from course_utils.exercises.registry import rehearse

ROOT = Path(__file__).parents[2]
TEACHING = (ROOT / "TEACHING.md").read_text()
EXAMPLE = re.search(
    r"### An exercise of your own\n.*?```python\n(.*?)```", TEACHING, re.S
)[1]
CHECK = 'check("A.1", ranks)'
RIGHT = """
import torch
import torch.distributed as dist
helper = None
def total(shard):
    parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, shard)
    return torch.stack(parts).sum(0)
"""


@pytest.fixture(autouse=True)
def as_before():
    """Forget what a test registers."""
    kept = dict(lessons.own)
    yield
    lessons.own.clear()
    lessons.own.update(kept)


def no_arguments(case, path):
    return [()] * case.world_size


def zeros(case, inputs):
    return [0] * case.world_size


ZERO = Exercise("Z.1", "nothing", inputs=no_arguments, oracle=zeros)


def test_the_example_of_the_documentation(book):
    """Registered in a notebook's cell, with a hint, on real ranks."""
    book.good("from course_utils import check")
    book.good(EXAMPLE)
    book.good("%%px\ndef total(shard):\n    return None")
    assert book.good(CHECK).startswith("A.1 not started: total returns None")
    book.good(f"%%px\n{RIGHT}")
    assert book.good(CHECK).startswith("A.1 correct: ")
    book.good("%%px\ndef total(shard):\n    return shard.clone()")
    assert book.good(f"{CHECK}.state, {CHECK}.why") == (
        "('wrong', 'Every rank returned its own shard: nothing was added up.')\n"
    )
    assert "A.1 is registered already" in book.failure(EXAMPLE)


def test_names_of_the_ranks_do_not_reach_the_oracle(book):
    book.good(
        "from course_utils import check\n"
        "from course_utils.exercises import Exercise, register\n"
        "def ones(case, inputs):\n    return [len(inputs)] * case.world_size\n"
        "def no_arguments(case, path):\n    return [()] * case.world_size\n"
        "register(Exercise('Z.2', 'size', inputs=no_arguments, oracle=ones))"
    )
    book.good("%%px\nones = no_arguments = 3\nsize = dist.get_world_size")
    assert "Z.2 correct" in book.good('check("Z.2", ranks)')


def test_cases_that_cannot_be_worked_out_are_not_the_learners(cells, ranks):
    cells.good("def nothing():\n    return 0")
    register(replace(ZERO, inputs=lambda case, path: 1 / 0))
    with pytest.raises(ValueError, match="Z.1 cannot be used on .*ZeroDivisionError"):
        check("Z.1", ranks)
    register(ZERO, replace=True)
    assert check("Z.1", ranks)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": "3.1"}, "id: the lessons have an exercise 3.1"),
        ({"id": "one"}, "id: expected text such as \"A.1\", got 'one'"),
        ({"id": 3.1}, "id: expected text"),
        ({"function": "to tal"}, "function: expected the name of the function"),
        ({"function": zeros}, "function: expected the name of the function"),
        ({"oracle": [0]}, r"oracle: expected a function, got \[0\]"),
        ({"inputs": None}, "inputs: expected a function"),
        ({"worlds": 4}, "worlds: expected a tuple of world sizes"),
        ({"worlds": ()}, "worlds: expected a tuple of world sizes"),
        ({"worlds": (0,)}, "worlds: expected a tuple of world sizes"),
        ({"shards": ((2,), "int64")}, "shards: expected a tuple of tuples"),
        ({"hints": zeros}, "hints: expected a tuple of functions"),
        ({"rules": ("no",)}, "rules: expected a tuple of functions"),
    ],
)
def test_malformed_exercises_are_refused(change, said):
    with pytest.raises(ValueError, match=said):
        register(replace(ZERO, **change))
    assert not lessons.own


@pytest.mark.unit
def test_what_is_no_exercise_is_refused():
    with pytest.raises(TypeError, match="expected an Exercise.*got str"):
        register("Z.1")


@pytest.mark.unit
def test_an_id_is_taken_once():
    register(ZERO)
    assert lessons.find("Z.1") is ZERO and "Z.1" in known()
    with pytest.raises(ValueError, match="Z.1 is registered already.*replace=True"):
        register(ZERO)
    other = replace(ZERO, function="other")
    register(other, replace=True)
    assert lessons.find("Z.1") is other
    with pytest.raises(ValueError, match="the exercises are 1.1, .*, Z.1"):
        lessons.find("Z.2")


@pytest.mark.unit
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"inputs": lambda case, path: [()]}, "inputs must return one item for each"),
        ({"inputs": lambda case, path: [0] * case.world_size}, "a tuple of arguments"),
        ({"oracle": lambda case, inputs: 0}, "oracle must return one item for each"),
    ],
)
def test_a_rehearsal_says_what_does_not_fit(change, said):
    assert said in rehearse(replace(ZERO, **change), 4)
    assert rehearse(ZERO, 4) == ""
