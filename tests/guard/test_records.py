"""Verdicts of the guard, from records alone."""

import inspect

import pytest
import torch
from torch import distributed as dist

from course_utils import guard
from course_utils.guard import (
    arguments,
    comparison,
    differences,
    layout,
    pieces,
    problems,
    record,
)

pytestmark = pytest.mark.unit

LINE = "line of test_records.py"


@pytest.fixture
def rank_0(monkeypatch):
    """Make this process rank 0 of a world of two, without any group."""
    monkeypatch.setattr(dist, "get_rank", lambda group=None: 0)
    monkeypatch.setattr(dist, "get_world_size", lambda group=None: 2)


def written(name: str, **given) -> record.Record:
    """Return the record of a call, as it comes out of the numbers."""
    line, file = record.caller()
    numbers, _ = record.record(name, given, [0, 1])
    return record.read(numbers)._replace(line=line, file=file)


def test_equal_records_are_no_problem(rank_0):
    mine = written("all_reduce", tensor=torch.ones(2), op=dist.ReduceOp.SUM)
    assert comparison.verdict({0: mine, 1: mine}) == ""


def test_records_have_one_length(rank_0):
    shapes = [(), (1,), (1,) * 8, (1,) * 9]
    found = {
        len(record.record("broadcast", {"tensor": torch.ones(s), "src": 0}, [0, 1])[0])
        for s in shapes
    }
    assert len(found) == 1


def test_problems_win_over_differences(rank_0):
    good = written("all_reduce", tensor=torch.ones(2))
    t = torch.ones(3)
    bad = written("all_gather", tensor=t, tensor_list=[t, t])
    assert comparison.verdict({0: good, 1: bad}) is None, "rank 1 has to tell"
    assert comparison.told({0: good, 1: bad}, {0: "", 1: problems.ALIASED}).startswith(
        "all_gather did not run: rank 1 passed a list that names one buffer"
    )


def test_different_problems_stand_below_each_other(rank_0):
    one = written("gather", tensor=torch.ones(2), gather_list=None, dst=0)
    assert one.wrong == record.OF_ROOT
    said = {0: "a", 1: "b", 2: "b", 3: "", 4: "c", 5: "d", 6: "e"}
    assert comparison.told(dict.fromkeys(said, one), said).splitlines() == [
        "gather did not run: rank 0 a",
        "  ranks 1–2 b",
        "  rank 4 c",
        "  rank 5 d",
        "  and 1 more",
    ]


def test_what_cannot_be_described_is_told(rank_0):
    class Odd(torch.Tensor):
        @property
        def dtype(self):
            raise OverflowError("no dtype today")

    given = {"tensor": torch.ones(2).as_subclass(Odd)}
    row, said = record.record("all_reduce", given, [0, 1])
    assert record.read(row).wrong == record.ALONE
    what = "passed what could not be described"
    assert said == f"{what}: OverflowError: no dtype today"


def test_table_shows_only_columns_that_say_something(rank_0):
    one = written("broadcast", tensor=torch.ones(2), src=0)
    two = written("broadcast", tensor=torch.ones(3), src=0)
    assert comparison.verdict({0: one, 2: two}).splitlines() == [
        "the ranks disagree on the shape of broadcast, so it did not run",
        f"  rank  operation  root  shape  dtype    {LINE}",
        f"  0     broadcast  0     (2,)   float32  {one.line}",
        f"  2     broadcast  0     (3,)   float32  {two.line}",
    ]


def test_verdicts_on_many_ranks_have_at_most_six_lines(rank_0):
    turned = written("broadcast", tensor=torch.ones(8, 8).t()[:, :3], src=0)
    for others in (
        [written("broadcast", tensor=torch.ones(n), src=0) for n in range(16)],
        [written("broadcast", tensor=torch.ones(8, 3), src=0)] * 16,
    ):
        every = dict(enumerate([*others, turned]))
        assert len(comparison.verdict(every).splitlines()) in range(4, 7)


def test_strides_of_contiguous_tensors_do_not_matter(rank_0):
    one = written("broadcast", tensor=torch.arange(3).view(3, 1), src=0)
    two = written("broadcast", tensor=torch.arange(3).view(1, 3).t(), src=0)
    assert comparison.verdict({0: one, 1: two}) == ""
    wide = written("broadcast", tensor=torch.ones(2, 3), src=0)
    turned = written("broadcast", tensor=torch.ones(3, 2).t(), src=0)
    assert "layout in memory" in comparison.verdict({0: wide, 1: turned})


def test_layout_is_shown_and_the_odd_one_named(rank_0):
    wide = written("broadcast", tensor=torch.ones(2, 3, 1), src=0)
    turned = written("broadcast", tensor=torch.ones(3, 2).t()[:, :, None], src=0)
    assert comparison.verdict({0: wide, 1: wide, 2: turned}).splitlines() == [
        "the ranks disagree on the layout in memory of broadcast, so it did not run",
        f"  rank  operation  root  shape      dtype    strides    {LINE}",
        f"  0     broadcast  0     (2, 3, 1)  float32  (3, 1, 1)  {wide.line}",
        f"  1     broadcast  0     (2, 3, 1)  float32  (3, 1, 1)  {wide.line}",
        f"  2     broadcast  0     (2, 3, 1)  float32  (1, 2, 1)  {turned.line}",
        f"rank 2: the elements lie in another order; {differences.REORDER}",
    ]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(2, 3, 4).permute(2, 0, 1),
        torch.ones(2, 3, 4).permute(1, 2, 0),
        torch.ones(2, 1, 4).permute(2, 1, 0),
        torch.ones(2, 3),
        torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.ones(()),
    ],
)
def test_order_tells_the_strides(tensor):
    assert layout.dense(tensor)
    told = layout.strides(layout.order(tensor), tuple(tensor.shape))
    pairs = zip(tensor.shape, tensor.stride(), told, strict=True)
    assert all(stride == found for size, stride, found in pairs if size > 1)


@pytest.mark.parametrize(
    "view",
    [
        torch.ones(3, 4)[:, 1],
        torch.ones(3, 4)[:, :2],
        torch.ones(3, 4).t()[1],
        torch.ones(6)[::2],
        torch.ones(1).expand(3),
        torch.ones(2, 3, 4).permute(2, 0, 1)[1:],
    ],
)
def test_views_with_gaps_or_overlaps_are_not_dense(view):
    assert layout.dense(view) == (view.numel() == 0)


@pytest.mark.parametrize(
    "view",
    [torch.ones(3, 4)[1], torch.ones(3, 4)[:, 1:1], torch.ones(3, 4)[:1, 1]],
)
def test_views_without_gaps_are_dense(view):
    assert layout.dense(view)


def test_last_of_many_dims_counts(rank_0):
    one, two = (
        written("all_reduce", tensor=torch.ones((1,) * 9 + (n,))) for n in (1, 2)
    )
    assert "shape" in comparison.verdict({0: one, 1: two})


def test_pieces_that_fit_are_in_balance():
    sizes = [[0, 2, 3], [1, 0, 4], [5, 6, 7]]  # from whom, to whom
    sent = [[((n, 2), "int64") for n in row] for row in sizes]
    expected = [[row[j] for row in sent] for j in range(3)]
    found = [pieces.balance(expected[i], sent[i], i) for i in range(3)]
    assert sum(found) % pieces.MODULUS == 0
    sent[0][1], sent[1][0] = sent[1][0], sent[0][1]
    found = [pieces.balance(expected[i], sent[i], i) for i in range(3)]
    assert sum(found) % pieces.MODULUS != 0


def test_scalar_is_not_a_vector(rank_0):
    one = written("all_reduce", tensor=torch.ones(()))
    assert differences.shape(one) == "()"
    assert "shape" in comparison.verdict(
        {0: one, 1: written("all_reduce", tensor=torch.ones(1))}
    )


@pytest.mark.parametrize("dtype", record.DTYPES)
def test_every_dtype_has_a_name(rank_0, dtype):
    mine = written("all_reduce", tensor=torch.empty(0, dtype=dtype))
    assert differences.dtype(mine) == str(dtype).removeprefix("torch.")


@pytest.mark.parametrize(
    ("given", "ranks", "root"),
    [
        ({"src": 2}, [0, 1, 2], 2),
        ({"src": None, "group_src": 1}, [0, 3], 3),
        ({"dst": None, "group_dst": None}, [0, 1], 0),
        ({}, [0, 1], arguments.NONE),
    ],
)
def test_root(given, ranks, root):
    assert arguments.root(given, ranks) == root


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
        found = problems.buffer_problem("all_gather", views, views[0], len(views))
        assert found == ""


def test_empty_buffers_are_not_aliases():
    t = torch.empty(0)
    assert problems.buffer_problem("all_gather", [t, t], t, 2) == ""


def test_inputs_may_be_named_several_times():
    t = torch.ones(2)
    assert problems.buffer_problem("scatter", [t, t], t, 2) == ""


def test_install_and_uninstall_leave_torch_as_it_was():
    before = {n: getattr(dist, n, None) for n in (*guard.OPERATIONS, *arguments.PEER)}
    made = dict(vars(dist.P2POp))
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
    assert {n: getattr(dist, n, None) for n in before} == before
    assert dict(vars(dist.P2POp)) == made
