"""Small shards of one look take a short way, and nobody can tell."""

import pytest

from course_utils import launch

CALLS = """
import random
import torch
from torch import distributed as dist
from course_utils import concat
from course_utils.concat import again, shared

me, world_size = dist.get_rank(), dist.get_world_size()


def shard_of(rank, call, looks):
    count = random.Random(f"{rank if looks == 'apart' else 0} {call}").choice([3, 4])
    return torch.arange(count).float() + 100 * rank + call


def wrong_calls(looks, calls):
    wrong = []
    for call in range(calls):
        shards = [shard_of(rank, call, looks) for rank in range(world_size)]
        full = concat.all_gather_cat(shards[me])
        if not torch.equal(full, torch.cat(shards)):
            wrong.append(call)
    return wrong


def lines():
    return sum(line is not None for line in ready().values())


def ready():
    return shared.dock_of(dist.group.WORLD).ready


def said(*values):
    for value in values[:-1]:
        concat.all_gather_cat(value)
    try:
        return concat.all_gather_cat(values[-1]).tolist()
    except concat.ConcatError as error:
        return str(error).splitlines()[0]
"""


@pytest.fixture(scope="module")
def three():
    """Return three ranks that can join shards of two looks, again and again."""
    with launch(3, guard=False) as ranks:
        ranks.view.execute(CALLS, block=True)
        yield ranks


@pytest.mark.parametrize("looks", ["alike", "apart"])
def test_every_call_is_right(three, looks):
    """Alike: all ranks take the same way. Apart: some are on it, some are not."""
    assert three.run(eval, f"wrong_calls({looks!r}, 60)") == [[]] * 3
    assert three.run(eval, "lines()") == [2] * 3


def test_layouts_and_values_are_those_of_this_call(three):
    base = "torch.arange(12).view(3, 4).float() + me"
    three.run(exec, f"base = {base}; turned = base.T.contiguous().T")
    expected = sum((three.run(eval, "base.tolist()")), [])
    shown = "said(base, base, base, turned, base[:], turned)"
    assert three.run(eval, shown) == [expected] * 3
    negated = "said(base, base, (base * 1j).conj().imag.contiguous())"
    assert three.run(eval, negated) == [[[-x for x in row] for row in expected]] * 3


@pytest.mark.parametrize(
    ("odd", "error"),
    [
        ("torch.ones(3, 5)", "the ranks disagree on the shape apart from dim 0"),
        ("torch.ones(3, 4).int()", "the ranks disagree on the dtype"),
        ("torch.ones(3, 4, device='meta')", "the tensor of rank 1 is on meta"),
        ("torch.ones(3, 4).to_sparse()", "rank 1 passed a sparse tensor"),
        ("'text'", "rank 1 passed a str"),
    ],
)
def test_one_rank_that_differs_is_named_on_all(three, odd, error):
    usual = "torch.ones(3, 4)"
    shown = f"said({usual}, {usual}, {usual}, {odd} if me == 1 else {usual})"
    told = three.run(eval, shown)
    assert len(set(told)) == 1
    assert error in told[0]
    assert three.run(eval, f"len(said({usual}))") == [9] * 3


def test_a_gradient_comes_back_after_calls_without(three):
    three.view.execute(
        """
plain = torch.ones(2)
for _ in range(4):
    _ = concat.all_gather_cat(plain)
asking = torch.ones(2, requires_grad=True)
full = concat.all_gather_cat(asking if me == 0 else plain)
full.sum().backward()
""",
        block=True,
    )
    assert three.run(eval, "asking.grad.tolist() if me == 0 else 0") == [[3, 3], 0, 0]


def test_looks_are_forgotten_when_there_are_many(three):
    three.view.execute(
        "for n in range(60):\n    for _ in range(3): concat.all_gather_cat("
        "torch.ones(n % 40))",
        block=True,
    )
    assert three.run(eval, "len(ready()) <= again.LOOKS") == [True] * 3
