# ruff: noqa: E501 (one case stands on one line)
"""The guard: what it refuses, what it lets through, and what it leaves alone."""

import pytest
from cells import Cells, mended
from fault_rows import SWAPPED

GUARDED, BARE, ALONE = (3, True), (3, False), (1, True)
ALIASED = (
    "passed a list that names one buffer several times, as [t] * n does; "
    "every rank's piece needs a buffer of its own"
)
LENGTH = "passed a list whose length is not the number of ranks in the group, "
UNLIKE = "passed buffers whose shape or dtype is not that of its tensor"
SIZE = (
    "passed a tensor for the whole that does not hold 3 times as many elements as "
    "the piece"
)
NO_LIST = "is the root and passed no list"
LAYOUT = (
    "passed a tensor that is not contiguous, which gives wrong values here; "
    "pass .contiguous()"
)
SHARES = "x if rank == 1 else None, src=1)"
WRONG = [  # a call that one rank or all make wrongly: operation, who, what
    ("dist.all_gather([x.clone()] * world_size, x)", "all_gather", "ranks 0–2", ALIASED),
    ("dist.all_gather([x] * 3 if rank == 1 else room(), x)", "all_gather", "rank 1", ALIASED),
    ("dist.gather(x, [x] * 3 if rank == 0 else None)", "gather", "rank 0", ALIASED),
    ("dist.gather(x, [x] * 3 if rank == 2 else None, dst=2)", "gather", "rank 2", ALIASED),
    ("dist.all_gather(room()[: 2 + (rank > 0)], x)", "all_gather", "rank 0", LENGTH + "3"),
    ("dist.all_gather(tensor_list=room() + [x], tensor=x)", "all_gather", "ranks 0–2", LENGTH + "3"),
    ("dist.gather(x, gather_list=room()[:2] if rank == 0 else None, dst=0)", "gather", "rank 0", LENGTH + "3"),
    ("dist.scatter(x, room()[:1] if rank == 1 else None, src=1)", "scatter", "rank 1", LENGTH + "3"),
    ("dist.reduce_scatter(x, room()[:2])", "reduce_scatter", "ranks 0–2", LENGTH + "3"),
    ("dist.all_gather(room(x.float() if rank == 2 else x), x)", "all_gather", "rank 2", UNLIKE),
    ("dist.all_gather(room(torch.zeros(3).long()), x)", "all_gather", "ranks 0–2", UNLIKE),
    ("dist.gather(x, room(x[:1]) if rank == 0 else None)", "gather", "rank 0", UNLIKE),
    ("dist.all_gather_single(torch.empty(2 * world_size - (rank == 1)).long(), x)", "all_gather_single", "rank 1", SIZE),
    ("dist.all_gather_single(output_tensor=x.clone(), input_tensor=x)", "all_gather_single", "ranks 0–2", SIZE),
    ("dist.reduce_scatter_single(x, torch.zeros(7).long())", "reduce_scatter_single", "ranks 0–2", SIZE),
    ("dist.gather(x)", "gather", "rank 0", NO_LIST),
    ("dist.gather(x, None, group_dst=2)", "gather", "rank 2", NO_LIST),
    ("dist.scatter(x, src=1)", "scatter", "rank 1", NO_LIST),
    ("dist.scatter(torch.zeros(4, 4).long().t(), room(torch.zeros(4, 4).long()) if rank == 0 else None)", "scatter", "ranks 0–2", LAYOUT),
]  # fmt: skip
DISAGREE = [  # a call that differs between the ranks: of what, in which columns
    ("dist.all_reduce(x, op=dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM)", "reduction of all_reduce"),
    ("dist.reduce(x, dst=rank)", "root of reduce"),
    ("dist.gather(x, room() if rank < 2 else None, dst=min(rank, 1))", "root of gather"),
    ("dist.all_reduce(x.float() if rank == 1 else x)", "dtype of all_reduce"),
    ("dist.all_reduce(x.float()[:1] if rank == 1 else x)", "shape and the dtype of all_reduce"),
    ("dist.all_gather(room(x[:1]) if rank else room(), x[:1] if rank else x)", "shape of all_gather"),
    ("dist.all_reduce(torch.ones(()) if rank else torch.ones(1))", "shape of all_reduce"),
    ("dist.broadcast(torch.ones(3, 2).t() if rank else torch.ones(2, 3), src=0)", "layout in memory of broadcast"),
    ("dist.broadcast_object_list([1] * (1 + rank), src=0)", "objects of broadcast_object_list"),
    ("dist.all_gather_object([None] * 3, 1) if rank else dist.barrier()", "operation of a collective"),
    ("dist.all_reduce(x, async_op=True) if rank else dist.broadcast(x, src=0, async_op=True)", "operation of a collective"),
]  # fmt: skip
FINE = [  # right calls, and what they make of every rank's value
    ("y = torch.ones(1); dist.all_reduce(y); y.item()", "3.0"),
    (
        "out = torch.empty(world_size * 0).long()\n"
        "dist.all_gather_single(out, x[:0]); out.tolist()",
        "[]",
    ),
    (
        "parts = [torch.empty(0) for _ in range(3)]\n"
        "dist.all_gather(parts, torch.ones(0)); len(parts)",
        "3",
    ),
    (
        "sizes = [1, 2, 3]\n"
        "out = torch.empty(3 * sizes[rank]).long()\n"
        "dist.all_to_all_single(out, torch.arange(6), [sizes[rank]] * 3, sizes)\n"
        "out.numel() == 3 * sizes[rank]",
        "True",
    ),
    (
        "whole = torch.empty(3, 2).long()\n"
        "dist.all_gather(list(whole), x); whole.tolist()",
        "[[0, 1], [100, 101], [200, 201]]",
    ),
    (
        "whole = torch.empty(6).long()\n"
        "dist.all_gather(list(whole.split(2)), x); whole.tolist()",
        "[0, 1, 100, 101, 200, 201]",
    ),
    (
        "y = torch.tensor([1.5 * rank], dtype=torch.bfloat16)\n"
        "parts = room(y); dist.all_gather(parts, y); torch.cat(parts).tolist()",
        "[0.0, 1.5, 3.0]",
    ),
    (
        "y = torch.tensor([rank == 1])\n"
        "parts = room(y); dist.all_gather(parts, y); torch.cat(parts).tolist()",
        "[False, True, False]",
    ),
    (
        "y = torch.tensor([rank + 1j])\n"
        "parts = room(y); dist.all_gather(parts, y); torch.cat(parts).tolist()",
        "[1j, (1+1j), (2+1j)]",
    ),
    (
        "y = torch.tensor(rank)\n"
        "parts = room(y); dist.all_gather(parts, y); torch.stack(parts).tolist()",
        "[0, 1, 2]",
    ),
    (
        "y = torch.ones(2, requires_grad=True)\n"
        "parts = room(y); dist.all_gather(parts, y); torch.cat(parts).sum().item()",
        "6.0",
    ),
    (
        "y = torch.zeros(2).long()\n"
        "dist.scatter(y, [x, x, x] if rank == 1 else None, src=1); y.tolist()",
        "[100, 101]",
    ),
    (
        "parts = room() if rank == 2 else None\n"
        "dist.gather(x, parts, dst=2)\n"
        "[p.tolist() for p in parts] if rank == 2 else 'nothing'",
        None,
    ),
    (
        "y = torch.arange(4).view(2, 2).t() + rank\n"
        "parts = room(y); dist.all_gather(parts, y); parts[1].tolist()",
        "[[1, 3], [2, 4]]",
    ),
    ("objects = [rank] * 2; dist.broadcast_object_list(objects, src=2); objects", "[2, 2]"),
    ("got = [None] * 3; dist.all_gather_object(got, 'a' * rank); got", "['', 'a', 'aa']"),
    (
        "parts = room(); work = dist.all_gather(parts, x, async_op=True)\n"
        "work.wait(); torch.cat(parts).tolist()",
        "[0, 1, 100, 101, 200, 201]",
    ),
    (
        "y = torch.zeros(2).long(); dist.reduce_scatter(y, [x, x, x]); y.tolist()",
        "[300, 303]",
    ),
]  # fmt: skip
SAME_GROUP = "dist.group.WORLD is group"


def failure(cells: Cells, cell: str) -> str:
    """Return what the guard says to a cell, and check that the group is the same."""
    cells.good("group = dist.group.WORLD")
    text = cells.report(cell)
    assert cells.good(SAME_GROUP) == "[ranks 0–2] True", "no repair was needed"
    return text


@pytest.mark.parametrize("world", [GUARDED], indirect=True, scope="module")
class TestGuarded:
    @pytest.mark.parametrize(("cell", "call", "who", "what"), WRONG)
    def test_wrong_call_is_told_on_every_rank(
        self, world, cells, cell, call, who, what
    ):
        text = failure(cells, cell)
        assert text == f"[ranks 0–2] {call} did not run: {who} {what}"
        mended(cells, world, [])

    @pytest.mark.parametrize(("cell", "what"), DISAGREE)
    def test_difference_is_told_on_every_rank(self, world, cells, cell, what):
        first, heading, *rows = failure(cells, cell).splitlines()
        assert first == (
            f"[ranks 0–2] the ranks disagree on the {what}, so it did not run"
        )
        assert heading.split()[:2] == ["rank", "operation"]
        assert [row.split()[0] for row in rows] == ["0", "1", "2"]
        mended(cells, world, [])

    @pytest.mark.parametrize(("cell", "value"), FINE)
    def test_right_call_runs(self, world, cells, cell, value):
        said = cells.good(cell)
        if value is not None:
            assert said == f"[ranks 0–2] {value}"
        else:
            nothing = "[ranks 0–1] 'nothing'"
            assert said == f"{nothing}\n[rank 2] [[0, 1], [100, 101], [200, 201]]"

    def test_sub_group(self, world, cells):
        cells.good("pair = dist.new_group([0, 2])")
        here = "if rank != 1:\n    "
        text = failure(cells, here + "dist.all_gather([x] * 2, x, group=pair)")
        assert text == f"[ranks 0, 2] all_gather did not run: ranks 0, 2 {ALIASED}"
        text = failure(cells, here + "dist.all_gather(room(), x, group=pair)")
        assert text == f"[ranks 0, 2] all_gather did not run: ranks 0, 2 {LENGTH}2"
        text = failure(cells, here + "dist.scatter(x, group=pair, group_src=1)")
        assert text == f"[ranks 0, 2] scatter did not run: rank 2 {NO_LIST}"
        text = failure(cells, here + "dist.all_reduce(x[: 1 + rank], group=pair)")
        assert text.startswith("[ranks 0, 2] the ranks disagree on the shape of")
        right = "parts = [torch.empty_like(x) for _ in range(2)]\n    "
        right += "dist.all_gather(parts, x, group=pair)\n    print(torch.cat(parts))"
        assert cells.good(here + right) == ("[ranks 0, 2] tensor([  0,   1, 200, 201])")

    def test_non_member_is_not_asked(self, world, cells):
        cells.good(
            "pair = dist.new_group([0, 1])\ndist.all_reduce(x.clone(), group=pair)"
        )

    def test_messages_between_two_ranks_do_not_count(self, world, cells):
        # Under torch's own DETAIL level every collective after this one fails: it
        # counts messages between two ranks as if all had taken part.
        cells.good(
            "for _ in range(3):\n"
            "    if rank == 0:\n        dist.send(x, dst=1)\n"
            "    elif rank == 1:\n        dist.recv(x.clone(), src=0)"
        )
        mended(cells, world, [])

    def test_arguments_that_do_not_fit_are_torch_s_business(self, world, cells):
        text = failure(cells, "dist.all_gather(x)")
        assert text.startswith("[ranks 0–2] TypeError at line 2")
        text = failure(cells, "dist.all_reduce([1, 2])")
        assert text.startswith("[ranks 0–2] ")
        mended(cells, world, [])

    def test_wrapped_function_keeps_its_name_and_the_original(self, world, cells):
        said = cells.good(
            "[dist.all_gather.__name__, dist.all_gather.unguarded is "
            "dist.distributed_c10d.all_gather, dist.all_gather.__doc__ == "
            "dist.all_gather.unguarded.__doc__]"
        )
        assert said == "[ranks 0–2] ['all_gather', True, True]"

    def test_table_names_the_line_in_the_cell(self, world, cells):
        text = failure(cells, SWAPPED)
        assert [row.split()[-1] for row in text.splitlines()[1:]] == ["line", *"366"]


@pytest.mark.parametrize("world", [BARE], indirect=True, scope="module")
class TestBare:
    def test_torch_is_untouched(self, world, cells):
        said = cells.good(
            "from course_utils.guard import OPERATIONS\n"
            "[n for n in OPERATIONS if getattr(dist, n, None) is not "
            "getattr(dist.distributed_c10d, n, None)]"
        )
        assert said == "[ranks 0–2] []"

    def test_aliased_list_is_silently_wrong(self, world, cells):
        said = cells.good(
            "parts = [x.clone()] * 3\ndist.all_gather(parts, x)\n"
            "[p.tolist() for p in parts]"
        )
        wrong = [[200, 201]] * 3
        assert said == f"[ranks 0–2] {wrong}"


@pytest.mark.parametrize("world", [ALONE], indirect=True, scope="module")
class TestAlone:
    def test_one_rank_has_nobody_to_compare_with(self, world, cells):
        said = cells.good("parts = room(); dist.all_gather(parts, x); parts")
        assert said == "[rank 0] [tensor([0, 1])]"
        mended(cells, world, [])
