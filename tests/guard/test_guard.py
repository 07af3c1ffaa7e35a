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
UNEVEN = (
    "passed tensors of several shapes or dtypes, which gloo does not take; use "
    "all_to_all_single with split sizes"
)
ALONG = "passed a whole of {} for pieces of {}; gloo needs {}, the pieces along dim 0"
GAPS = (
    "passed a view with gaps or overlaps in memory, so that what lies beside its "
    "elements would be overwritten; {} a copy: column = m[:, 1].contiguous(), then "
    "m[:, 1] = column"
)
TARGET = (
    "passed a tensor to receive into that is not contiguous, which gives wrong values "
    "here; receive into a new one: column = torch.empty(3), then m[:, 1] = column"
)
SURPLUS = "passed a list without being the root; only rank {} passes one"
NO_RANK = "but the world size is 3 and its ranks are 0–2"
BELONGS = "where a tensor belongs"
LISTED = "where a list of 3 tensors belongs, one for each rank"
MISFIT = "called it with arguments that do not fit: "
SWAP = "passed its list and its tensor in the wrong order; it is "
M = "m = torch.full((3, 4), rank)\n"
IN = "m = torch.arange(12).view(3, 4) + 100 * rank\n"
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
    (M + "dist.broadcast(m[:, 1], src=0)", "broadcast", "ranks 0–2", GAPS.format("broadcast")),
    (M + "dist.broadcast(m[:, 1] if rank == 1 else torch.zeros(3).long(), src=0)", "broadcast", "rank 1", GAPS.format("broadcast")),
    (M + "dist.all_reduce(m[:, :2])", "all_reduce", "ranks 0–2", GAPS.format("reduce")),
    (M + "dist.reduce(m.t()[::2], dst=1)", "reduce", "ranks 0–2", GAPS.format("reduce")),
    (M + "dist.all_reduce(m.view(-1)[::3])", "all_reduce", "ranks 0–2", GAPS.format("reduce")),
    ("dist.all_reduce(torch.ones(1).expand(3))", "all_reduce", "ranks 0–2", GAPS.format("reduce")),
    (M + "dist.reduce_scatter(m[:, 1], room(torch.ones(3).long()))", "reduce_scatter", "ranks 0–2", TARGET),
    ("dist.all_gather(None, x)", "all_gather", "ranks 0–2", f"passed None as tensor_list, {LISTED}"),
    ("dist.all_gather(None if rank == 1 else room(), x)", "all_gather", "rank 1", f"passed None as tensor_list, {LISTED}"),
    ("dist.all_gather([], x)", "all_gather", "ranks 0–2", LENGTH + "3"),
    ("dist.all_gather(tuple(room()), x)", "all_gather", "ranks 0–2", f"passed a tuple as tensor_list, {LISTED}"),
    ("dist.all_gather(torch.empty(6).long(), x)", "all_gather", "ranks 0–2", f"passed a Tensor as tensor_list, {LISTED}"),
    ("dist.all_gather(x, room())", "all_gather", "ranks 0–2", SWAP + "all_gather(tensor_list, tensor)"),
    ("dist.gather(room(), x)", "gather", "ranks 0–2", SWAP + "gather(tensor, gather_list)"),
    ("dist.gather(room(), x if rank == 0 else None)", "gather", "rank 0", SWAP + "gather(tensor, gather_list)\n  ranks 1–2 passed a list as tensor, " + BELONGS),
    ("dist.gather(x, room())", "gather", "ranks 1–2", SURPLUS.format(0)),
    ("dist.gather(x, room() if rank == 1 else None)", "gather", "rank 0", f"{NO_LIST}\n  rank 1 {SURPLUS.format(0)}"),
    ("dist.scatter(x, room() if rank < 2 else [], src=1)", "scatter", "rank 0", SURPLUS.format(1)),
    ("dist.all_gather([x, None, x] if rank == 2 else room(), x)", "all_gather", "rank 2", f"passed None at index 1 of tensor_list, {BELONGS}"),
    ("dist.scatter(x, [1, 2, 3] if rank == 0 else None)", "scatter", "rank 0", f"passed an int at index 0 of scatter_list, {BELONGS}"),
    ("dist.all_reduce([1, 2])", "all_reduce", "ranks 0–2", f"passed a list as tensor, {BELONGS}"),
    ("dist.broadcast(None if rank else x, src=0)", "broadcast", "ranks 1–2", f"passed None as tensor, {BELONGS}"),
    ("dist.all_gather(*([x] if rank == 1 else [room(), x]))", "all_gather", "rank 1", MISFIT + "missing a required argument: 'tensor'"),
    ("dist.all_reduce(x, **({'dst': 0} if rank else {}))", "all_reduce", "ranks 1–2", MISFIT + "got an unexpected keyword argument 'dst'"),
    ("dist.broadcast(x, src=5)", "broadcast", "ranks 0–2", f"named src=5, {NO_RANK}"),
    ("dist.reduce(x, dst=rank + 1)", "reduce", "rank 2", f"named dst=3, {NO_RANK}"),
    ("dist.gather(x, room(), dst=-1)", "gather", "ranks 0–2", f"named dst=-1, {NO_RANK}"),
    ("dist.broadcast(x, src='0' if rank == 1 else 0)", "broadcast", "rank 1", f"named src='0', {NO_RANK}"),
    ("dist.broadcast(x, src=0.5)", "broadcast", "ranks 0–2", f"named src=0.5, {NO_RANK}"),
    ("dist.broadcast(x, group_src=3)", "broadcast", "ranks 0–2", "named group_src=3, but the group has 3 ranks, counted from 0 to 2"),
    ("dist.broadcast(x, **({} if rank else {'src': 0}))", "broadcast", "ranks 1–2", "named no root; add src=0, or another"),
    ("dist.broadcast(x, src=0, group_src=0)", "broadcast", "ranks 0–2", "named both src and group_src; give one of them"),
    ("dist.gather_object(1, [None] * 3)", "gather_object", "ranks 1–2", SURPLUS.format(0)),
    ("dist.gather_object(1, [None] * 2 if rank == 0 else None)", "gather_object", "rank 0", LENGTH + "3"),
    ("dist.all_gather_object([None] * (2 + (rank > 0)), 1)", "all_gather_object", "rank 0", LENGTH + "3"),
    ("dist.all_gather_object(None if rank else [None] * 3, 1)", "all_gather_object", "ranks 1–2", "passed None as object_list, where a list belongs"),
    ("dist.scatter_object_list([None], [1, 2] if rank == 0 else None)", "scatter_object_list", "rank 0", LENGTH + "3"),
    ("dist.broadcast_object_list(None if rank else [1])", "broadcast_object_list", "ranks 1–2", "passed None as object_list, where a list belongs"),
    ("dist.all_gather_single(torch.empty((3, 2) if rank == 2 else 6).long(), x)", "all_gather_single", "rank 2", ALONG.format((3, 2), (2,), (6,))),
    ("dist.reduce_scatter_single(x, torch.ones(3, 2).long())", "reduce_scatter_single", "ranks 0–2", ALONG.format((3, 2), (2,), (6,))),
    ("dist.reduce_scatter_single(torch.ones(()), torch.ones(3))", "reduce_scatter_single", "ranks 0–2", "passed a piece without a dim 0, along which gloo puts the pieces"),
    ("dist.all_gather_single(torch.empty(6), x)", "all_gather_single", "ranks 0–2", "passed a float32 whole and a int64 piece"),
    ("dist.all_gather_single(x, torch.zeros(6).long())", "all_gather_single", "ranks 0–2", SIZE + "; the order is all_gather_single(output_tensor, input_tensor)"),
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
UNFIT = [  # an all to all whose pieces do not fit: operation, from, to, what
    ("dist.all_to_all_single(torch.empty(3 + 3 * (rank == 1)).long(), torch.arange(3))", "all_to_all_single", [(r, 1, "(1,) int64", "(2,) int64") for r in range(3)]),
    ("dist.all_to_all_single(torch.empty(3), torch.arange(3) if rank else torch.ones(3)) if rank == 0 else dist.all_to_all_single(torch.empty(3).long(), torch.arange(3))", "all_to_all_single", [(0, 1, "(1,) float32", "(1,) int64"), (0, 2, "(1,) float32", "(1,) int64"), (1, 0, "(1,) int64", "(1,) float32"), (2, 0, "(1,) int64", "(1,) float32")]),
    ("sizes = [2, 1, 3] if rank == 2 else [1, 2, 3]\nout = torch.empty(9).long()[: 3 * (rank + 1)]\ndist.all_to_all_single(out, torch.arange(6), [rank + 1] * 3, sizes)", "all_to_all_single", [(2, 0, "(2,) int64", "(1,) int64"), (2, 1, "(1,) int64", "(2,) int64")]),
    ("wide = torch.zeros(3, 4 if rank == 1 else 2)\ndist.all_to_all_single(torch.zeros(3, 2), wide)", "all_to_all_single", [(1, r, "(1, 4) float32", "(1, 2) float32") for r in range(3)]),
    ("y = torch.ones(2, 3) if rank < 2 else torch.ones(3, 2); dist.all_to_all(room(y), [y] * 3)", "all_to_all", [(0, 2, "(2, 3) float32", "(3, 2) float32"), (1, 2, "(2, 3) float32", "(3, 2) float32"), (2, 0, "(3, 2) float32", "(2, 3) float32"), (2, 1, "(3, 2) float32", "(2, 3) float32")]),
    ("dist.all_to_all(room(x.short()) if rank == 2 else room(x.int()), [x.int()] * 3) if rank < 2 else dist.all_to_all(room(x.float()), [x.float()] * 3)", "all_to_all", [(0, 2, "(2,) int32", "(2,) float32"), (1, 2, "(2,) int32", "(2,) float32"), (2, 0, "(2,) float32", "(2,) int32"), (2, 1, "(2,) float32", "(2,) int32")]),
]  # fmt: skip
ALONE_UNFIT = [  # one that one rank alone can tell
    ("dist.all_to_all_single(torch.empty(6).long(), torch.arange(6), None, [1, 2, 2 + (rank == 0)])", "all_to_all_single", "ranks 1–2", "passed input_split_sizes=[1, 2, 2], which is 5 rows, for an input of 6"),
    ("dist.all_to_all_single(torch.empty(6).long(), torch.arange(6), [3, 3])", "all_to_all_single", "ranks 0–2", "passed output_split_sizes=[3, 3], not a size for each of 3 ranks"),
    ("dist.all_to_all_single(torch.empty(6).long(), torch.arange(6), None, [7, -1, 0])", "all_to_all_single", "ranks 0–2", "passed input_split_sizes=[7, -1, 0], which are not all whole numbers from 0"),
    ("dist.all_to_all_single(torch.empty(6).long(), torch.arange(6 + (rank == 1)))", "all_to_all_single", "rank 1", "passed an input of 7 rows, which 3 ranks cannot share equally, and no split sizes"),
    ("dist.all_to_all_single(torch.zeros(3, 4)[:, 1], torch.ones(3))", "all_to_all_single", "ranks 0–2", "passed an output that is not contiguous, which gives wrong values here; pass a contiguous one, and copy from it"),
    ("y = torch.ones(3); dist.all_to_all_single(y, y)", "all_to_all_single", "ranks 0–2", "passed the same memory to receive into and to send from, which gives wrong values; receive into a new tensor"),
    ("dist.all_to_all_single(torch.ones(()), torch.ones(3))", "all_to_all_single", "ranks 0–2", "passed an output without a dim 0 that could be split"),
    ("dist.all_to_all_single(room(), x)", "all_to_all_single", "ranks 0–2", f"passed a list as output, {BELONGS}"),
    ("dist.all_to_all(room(), [x] * (2 if rank == 1 else 3))", "all_to_all", "rank 1", "passed 2 tensors as input_tensor_list, to 3 ranks"),
    ("dist.all_to_all(room(), None if rank else [x] * 3)", "all_to_all", "ranks 1–2", f"passed None as input_tensor_list, {LISTED}"),
    ("dist.all_to_all(room(), [x, x, x.float()] if rank == 1 else [x] * 3)", "all_to_all", "rank 1", UNEVEN),
    ("dist.all_to_all([torch.empty(r * rank) for r in range(3)], [torch.ones(rank * r) for r in range(3)])", "all_to_all", "ranks 1–2", UNEVEN),
    ("dist.all_to_all(room(torch.ones(2, 3)), [torch.ones(3, 2)] * 3)", "all_to_all", "ranks 0–2", UNEVEN),
    ("dist.all_to_all([x, 1, x], [x] * 3)", "all_to_all", "ranks 0–2", f"passed an int at index 1 of output_tensor_list, {BELONGS}"),
]  # fmt: skip
WRONG += ALONE_UNFIT
MESSAGES = [  # that rank 1 cannot send or receive: the call, what the guard says
    ("dist.send(x, rank + 2)", f"send did not run: this rank named dst=3, {NO_RANK}"),
    ("dist.send(x, dst=-1)", f"send did not run: this rank named dst=-1, {NO_RANK}"),
    ("dist.recv(x, 3)", f"recv did not run: this rank named src=3, {NO_RANK}"),
    ("dist.isend(x, 7)", f"isend did not run: this rank named dst=7, {NO_RANK}"),
    ("dist.irecv(x, src=1000)", f"irecv did not run: this rank named src=1000, {NO_RANK}"),
    ("dist.P2POp(dist.isend, x, 3)", f"isend in P2POp did not run: this rank named peer=3, {NO_RANK}"),
    ("dist.send_object_list([1], dst=3)", f"send_object_list did not run: this rank named dst=3, {NO_RANK}"),
    ("dist.recv(x, 1)", "recv did not run: this rank named itself, but no message goes from a rank to itself; use clone()"),
    ("dist.send(torch.ones(3, 4)[:, 1], 0)", "send did not run: this rank passed a tensor that is not contiguous, which cannot be sent; pass .contiguous()"),
    ("dist.recv(torch.ones(3, 4)[:, 1], 0)", "recv did not run: this rank passed a tensor to receive into that is not contiguous, which cannot be; receive into a new one: column = torch.empty(3), then m[:, 1] = column"),
    ("dist.send(None, 0)", f"send did not run: this rank passed None as tensor, {BELONGS}"),
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
    ("y = (torch.arange(4).view(2, 2) + rank).t(); dist.all_reduce(y); y.tolist()", "[[3, 9], [6, 12]]"),
    ("m = torch.full((3, 4), rank); dist.broadcast(m[1], src=2); m[:, 0].tolist()[1]", "2"),
    ("m = torch.zeros(2, 3).long(); dist.all_gather(list(m.t()), x); m.tolist()", "[[0, 100, 200], [1, 101, 201]]"),
    ("m = torch.zeros(6, 2).long(); dist.all_gather_single(m[:, 1], x); m.t().tolist()[1]", "[0, 1, 100, 101, 200, 201]"),
    ("m = torch.ones(6, 2).long(); y = x.clone(); dist.reduce_scatter_single(y, m[:, 1]); y.tolist()", "[3, 3]"),
    ("m = torch.zeros(2, 3).long(); dist.all_to_all(list(m.t()), [x] * 3); m.tolist()", "[[0, 100, 200], [1, 101, 201]]"),
    ("y = torch.empty(3).long(); dist.all_to_all_single(y, torch.arange(3) - torch.arange(3) + rank); y.tolist()", "[0, 1, 2]"),
    ("y = torch.zeros(2).long(); dist.scatter_object_list(y := [None], ['a', 'b', 'c'] if rank == 0 else None); len(y[0])", "1"),
    (
        "y = torch.zeros(2).long(); to, of = (rank + 1) % 3, (rank - 1) % 3\n"
        "ops = [dist.P2POp(dist.isend, x, to), dist.P2POp(op=dist.irecv, tensor=y, peer=of)]\n"
        "for work in dist.batch_isend_irecv(ops): work.wait()\n"
        "y.tolist() == [100 * of, 100 * of + 1]",
        "True",
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

    @pytest.mark.parametrize(("cell", "call", "pairs"), UNFIT)
    def test_all_to_all_names_who_sends_what(self, world, cells, cell, call, pairs):
        first, *rows, cure = failure(cells, cell).splitlines()
        what = "did not run: pieces are not what their receivers expect"
        assert first == f"[ranks 0–2] {call} {what}"
        assert rows == [
            f"  rank {source} sends {sent} to rank {target}, which expects {expected}"
            for source, target, sent, expected in pairs
        ]
        assert cure.startswith("input_")
        mended(cells, world, [])

    @pytest.mark.parametrize(("call", "what"), MESSAGES)
    def test_message_that_cannot_be_sent_is_refused(self, world, cells, call, what):
        text = failure(cells, f"if rank == 1:\n    {call}")
        assert text == f"[rank 1] {what}"
        mended(cells, world, [])

    def test_message_in_a_sub_group_counts_as_torch_does(self, world, cells):
        cells.good("pair = dist.new_group([0, 2])")
        said = cells.good(
            "if rank == 0:\n    dist.send(x, group=pair, group_dst=1)\n"
            "elif rank == 2:\n    y = x * 0\n    dist.recv(y, group=pair, group_src=0)\n"
            "    print(y.tolist())"
        )
        assert said == "[rank 2] [0, 1]"
        text = failure(
            cells, "if rank == 0:\n    dist.send(x, group=pair, group_dst=2)"
        )
        assert text == (
            "[rank 0] send did not run: this rank named group_dst=2, but the group has "
            "2 ranks, counted from 0 to 1"
        )
        text = failure(cells, "if rank == 0:\n    dist.send(x, 1, group=pair)")
        assert text == (
            "[rank 0] send did not run: this rank named dst=1, but the ranks of the "
            "group are 0, 2"
        )

    def test_ranks_that_miss_a_new_group_are_told(self, world, cells):
        cells.good("if rank != 1:\n    odd = dist.new_group([0, 2])")
        cells.good("if rank != 1:\n    dist.all_reduce(x.clone(), group=odd)")
        text = failure(cells, "dist.broadcast(x, src=0)")
        assert text == (
            "[ranks 0–2] broadcast did not run: ranks 0, 2 called new_group and rank 1 "
            "did not; every rank of the world must call it, members or not"
        )
        mended(cells, world, [])
        cells.good("even = dist.new_group([1, 2])")
        cells.good("if rank:\n    dist.all_reduce(x.clone(), group=even)")
        mended(cells, world, [])

    def test_members_may_make_a_group_that_says_so(self, world, cells):
        # torch names such a group after the number of groups that a rank is in, which
        # has to be the same.
        cells.good(
            "for other in list(dist.distributed_c10d._world.pg_map):\n"
            "    if other is not dist.group.WORLD:\n"
            "        dist.destroy_process_group(other)"
        )
        cells.good(
            "if rank < 2:\n"
            "    own = dist.new_group([0, 1], use_local_synchronization=True)\n"
            "    dist.all_reduce(x.clone(), group=own)"
        )
        mended(cells, world, [])

    def test_compiled_function_is_as_without_the_guard(self, world, cells):
        said = cells.good(
            "@torch.compile(fullgraph=True, backend='aot_eager')\n"
            "def f(y):\n"
            "    dist.all_reduce(y, op=dist.ReduceOp.MAX)\n"
            "    z = torch.empty(3 * len(y), dtype=y.dtype)\n"
            "    dist.all_gather_single(z, y)\n"
            "    return z + 1\n"
            "f(x + 0).tolist()"
        )
        assert said == "[ranks 0–2] [201, 202, 201, 202, 201, 202]"
        mended(cells, world, [])

    @pytest.mark.parametrize(("cell", "what"), DISAGREE)
    def test_difference_is_told_on_every_rank(self, world, cells, cell, what):
        first, heading, *rows = failure(cells, cell).splitlines()
        assert first == (
            f"[ranks 0–2] the ranks disagree on the {what}, so it did not run"
        )
        assert heading.split()[:2] == ["rank", "operation"]
        assert [row.split()[0] for row in rows[:3]] == ["0", "1", "2"]
        assert bool(rows[3:]) == ("layout" in what), "the way on for a layout alone"
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
        cells.good("pair = dist.new_group([0, 2])")
        text = failure(cells, here + "dist.broadcast(x, src=rank // 2, group=pair)")
        assert text == (
            "[ranks 0, 2] broadcast did not run: rank 2 named src=1, but the ranks of "
            "the group are 0, 2"
        )
        text = failure(cells, here + "dist.broadcast(x, src=1, group=pair)")
        assert "Global rank 1 is not part of group" in text, "torch says it"
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
