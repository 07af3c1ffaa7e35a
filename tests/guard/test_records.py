"""Verdicts of the guard, from records alone."""

import inspect

import pytest
import torch
from torch import distributed as dist

from course_utils import guard
from course_utils.guard import comparison, record

pytestmark = pytest.mark.unit


@pytest.fixture
def rank_0(monkeypatch):
    """Make this process rank 0, without any group."""
    monkeypatch.setattr(dist, "get_rank", lambda group=None: 0)


def written(name: str, **given) -> list[int]:
    return record.record(name, given, [0, 1])


def test_equal_records_are_no_problem(rank_0):
    mine = written("all_reduce", tensor=torch.ones(2), op=dist.ReduceOp.SUM)
    assert comparison.verdict({0: mine, 1: list(mine)}) == ""


def test_records_have_one_length(rank_0):
    shapes = [(), (1,), (1,) * 8, (1,) * 9]
    found = {len(written("broadcast", tensor=torch.ones(s), src=0)) for s in shapes}
    assert len(found) == 1


def test_first_problem_wins_over_differences(rank_0):
    good = written("all_gather", tensor=torch.ones(2), tensor_list=[torch.ones(2)] * 0)
    t = torch.ones(3)
    bad = written("all_gather", tensor=t, tensor_list=[t, t])
    assert comparison.verdict({0: good, 1: bad}).startswith(
        "all_gather did not run: rank 1 passed a list that names one buffer"
    )


def test_table_shows_only_columns_that_say_something(rank_0):
    one = written("broadcast", tensor=torch.ones(2), src=0)
    two = written("broadcast", tensor=torch.ones(3), src=0)
    assert comparison.verdict({0: one, 2: two}).splitlines() == [
        "the ranks disagree on the shape of broadcast, so it did not run",
        "  rank  operation  root  shape  dtype",
        "  0     broadcast  0     (2,)   float32",
        "  2     broadcast  0     (3,)   float32",
    ]


def test_strides_of_contiguous_tensors_do_not_matter(rank_0):
    one = written("broadcast", tensor=torch.arange(3).view(3, 1), src=0)
    two = written("broadcast", tensor=torch.arange(3).view(1, 3).t(), src=0)
    assert comparison.verdict({0: one, 1: two}) == ""
    wide = written("broadcast", tensor=torch.ones(2, 3), src=0)
    turned = written("broadcast", tensor=torch.ones(3, 2).t(), src=0)
    assert "layout in memory" in comparison.verdict({0: wide, 1: turned})


def test_scalar_is_not_a_vector(rank_0):
    one = written("all_reduce", tensor=torch.ones(()))
    assert comparison.shape(one) == "()"
    assert "shape" in comparison.verdict(
        {0: one, 1: written("all_reduce", tensor=torch.ones(1))}
    )


@pytest.mark.parametrize("dtype", record.DTYPES)
def test_every_dtype_has_a_name(rank_0, dtype):
    mine = written("all_reduce", tensor=torch.empty(0, dtype=dtype))
    assert comparison.dtype(mine) == str(dtype).removeprefix("torch.")


@pytest.mark.parametrize(
    ("given", "ranks", "root"),
    [
        ({"src": 2}, [0, 1, 2], 2),
        ({"src": None, "group_src": 1}, [0, 3], 3),
        ({"dst": None, "group_dst": None}, [0, 1], 0),
        ({}, [0, 1], record.NONE),
    ],
)
def test_root(given, ranks, root):
    assert record.root(given, ranks) == root


@pytest.mark.parametrize(
    ("op", "text"),
    [
        (dist.ReduceOp.MAX, "MAX"),
        (dist.ReduceOp.AVG, "AVG"),
        (dist.ReduceOp(dist.ReduceOp.MIN), "MIN"),
        (None, ""),
    ],
)
def test_reduction(op, text):
    number = record.reduction_number(op)
    assert (record.REDUCTIONS[number] if number >= 0 else "") == text


def test_views_of_one_buffer_are_not_aliases():
    whole = torch.zeros(2, 3)
    for views in (list(whole), list(whole.t()), list(whole.view(-1).split(3))):
        assert record.list_problem("all_gather", views, views[0], [0] * len(views)) == 0


def test_empty_buffers_are_not_aliases():
    t = torch.empty(0)
    assert record.list_problem("all_gather", [t, t], t, [0, 1]) == 0


def test_inputs_may_be_named_several_times():
    t = torch.ones(2)
    assert record.list_problem("scatter", [t, t], t, [0, 1]) == 0


def test_install_and_uninstall_leave_torch_as_it_was():
    before = {n: getattr(dist, n, None) for n in guard.OPERATIONS}
    guard.install()
    try:
        guard.install()
        for name, function in before.items():
            if function is None:
                continue
            wrapped = getattr(dist, name)
            assert wrapped.unguarded is function, "wrapped once"
            assert inspect.signature(wrapped) == inspect.signature(function)
    finally:
        guard.uninstall()
    assert {n: getattr(dist, n, None) for n in guard.OPERATIONS} == before
