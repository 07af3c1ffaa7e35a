"""Calls that look like earlier ones are compared as the first was."""

import pytest

from course_utils import launch

CALLS = """
import torch
from torch import distributed as dist
from course_utils.guard import known

me = dist.get_rank()


def rounds(odd, count=4):
    '''What a rank sees that makes one odd call after some that are alike.'''
    calls = [usual] * (count - 1) + [odd if me == 1 else usual]
    return [raised(call) for call in calls]


def usual(size=3, **given):
    value = torch.ones(size)
    dist.all_reduce(value, **given)
    return value.sum().item()


def gathered(*sizes):
    into = [torch.zeros(n) for n in sizes]
    dist.all_gather(into, torch.ones(3))
    return sum(into).sum().item()


def twice(tensor):
    return dist.all_gather([tensor] * 3, torch.ones(3))


def raised(call):
    '''What a call returns, or the text of its error.'''
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def looks():
    return len(known._known.get(dist.group.WORLD, {}))
"""
FILE = """def tried(call, size):
    try:
        call(size)
    except Exception as error:
        return str(error)


def one(size):
    dist.all_reduce(torch.ones(size))


def other(size):
    dist.all_reduce(torch.ones(size))
"""


def same_error(ranks, call: str) -> str:
    """Return the error of a call, which is the same on all ranks."""
    (error,) = set(ranks.run(eval, call))
    return error


@pytest.fixture(scope="module")
def three():
    """Return three guarded ranks."""
    with launch(3) as ranks:
        ranks.view.execute(CALLS, block=True)
        yield ranks


def test_calls_alike_are_known_and_right(three):
    assert three.run(eval, "rounds(usual)") == [[9.0] * 4] * 3
    assert min(three.run(eval, "looks()")) >= 1


ODD = {
    "lambda: usual(4)": "shape",
    "lambda: usual(op=dist.ReduceOp.MAX)": "reduction",
    "lambda: dist.broadcast(torch.ones(3), 0)": "operation",
    "lambda: dist.all_reduce(torch.ones(3).int())": "dtype",
    "lambda: dist.all_reduce(torch.ones(6)[::2])": "gaps",
}


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_call_after_them_is_the_same_error_on_all(three, odd):
    """And the one after it works."""
    seen = three.run(eval, f"rounds({odd})")
    assert [rank[:3] for rank in seen] == [[9.0] * 3] * 3
    errors = {rank[3] for rank in seen}
    assert len(errors) == 1
    assert errors.pop().startswith("CollectiveError: ")
    assert ODD[odd] in seen[0][3]
    assert three.run(eval, "usual()") == [9.0] * 3


def test_lists_alike_are_known_and_right(three):
    three.run(exec, "before = looks()")
    calls = "[gathered(3, 3, 3) for call in range(3)]"
    assert three.run(eval, calls) == [[9.0] * 3] * 3
    assert three.run(eval, "looks() - before") == [1] * 3


ODD_LISTS = {
    "twice(torch.ones(3))": "several times",
    "gathered(3, 3)": "length",
    "gathered(3, 3, 4)": "shape or dtype",
    "usual()": "operation",
}


@pytest.mark.parametrize("odd", ODD_LISTS)
def test_an_odd_list_after_them_is_the_same_error_on_all(three, odd):
    three.run(eval, "gathered(3, 3, 3)")
    call = f"{odd} if me == 1 else gathered(3, 3, 3)"
    error = same_error(three, f"raised(lambda: {call})")
    assert error.startswith("CollectiveError: ") and ODD_LISTS[odd] in error


def test_what_torch_says_itself_is_not_taken_for_right(three):
    """Once all ranks call it wrongly, then one does."""
    wrong = "dist.all_gather_single(torch.empty(3), torch.tensor(1.0))"
    assert not same_error(three, f"raised(lambda: {wrong})").startswith("Collective")
    call = f"{wrong} if me == 1 else usual()"
    error = same_error(three, f"raised(lambda: {call})")
    assert "rank 1 passed a piece without a dim 0" in error


def test_a_known_call_names_the_line_that_makes_it_now(three):
    """A file's last frame, or a cell's first."""
    for name, lines in (("train.py", "9 9 13"), ("ipykernel_7/8.py", "3 3 3")):
        three.run(exec, f"exec(compile({FILE!r}, {name!r}, 'exec'))")
        three.run(exec, "one(3), other(3)")
        error = same_error(three, "tried(other, 4) if me == 2 else tried(one, 3)")
        heading, *rows = error.splitlines()[1:]
        assert heading.endswith("line of train.py" if "train" in name else "line")
        assert [row.split()[-1] for row in rows] == lines.split()


def test_a_new_group_that_a_rank_left_out_is_named(three):
    three.run(eval, "usual()")
    three.run(exec, "if me: dist.new_group([1, 2])")
    assert "new_group" in same_error(three, "rounds(usual, 1)[0]")
