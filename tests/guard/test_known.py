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
    seen = []
    for call in range(count):
        try:
            if call == count - 1 and me == 1:
                seen.append(odd())
            else:
                seen.append(usual())
        except Exception as error:
            seen.append(f"{type(error).__name__}: {error}")
    return seen


def usual(size=3, **given):
    value = torch.ones(size)
    dist.all_reduce(value, **given)
    return value.sum().item()


def looks():
    return len(known._known.get(dist.group.WORLD, {}))
"""


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


def test_a_new_group_that_a_rank_left_out_is_named(three):
    three.run(eval, "usual()")
    three.run(exec, "if me: dist.new_group([1, 2])")
    seen = three.run(eval, "rounds(usual, 1)[0]")
    assert len(set(seen)) == 1 and "new_group" in seen[0]
