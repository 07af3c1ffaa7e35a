"""Every collective over MPI beside the same one over gloo, on ranks of mpiexec.

`test_calls.py` runs this file: ``python calls.py FOLDER``. Each rank writes what
differs into a file of its own there.
"""

import json
import sys
import traceback
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed as dist

from course_utils import mpi_backend

MOVED = (  # dtypes that gloo moves, too
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.bool,
)
UNKNOWN = (torch.int16, torch.uint16, torch.complex64, torch.float8_e4m3fn)  # to gloo
ADDED = MOVED[:-1]
LAYOUTS = ("contiguous", "transposed", "strided")
COMPARING = ("SUM", "PRODUCT", "MIN", "MAX")
BITWISE = ("BAND", "BOR", "BXOR")


def shard(dtype: torch.dtype, layout: str = "contiguous") -> torch.Tensor:
    """Return a tensor of this rank's own, of small whole numbers."""
    values = (torch.arange(6).reshape(2, 3) * 3 + dist.get_rank()) % 5
    held = (values % 2 if dtype == torch.bool else values).to(dtype)
    if layout == "transposed":
        return held.t().contiguous().t()
    if layout == "strided":
        return torch.stack([held, held], -1)[..., 0]
    return held


def buffers(t: torch.Tensor, group) -> list[torch.Tensor]:
    """Return a tensor like `t` for each rank of a group."""
    return [torch.zeros_like(t) for _ in range(dist.get_world_size(group))]


def all_gather(group, t):
    outs = buffers(t, group)
    dist.all_gather(outs, t, group=group)
    return outs


def all_gather_single(group, t):
    whole = t.new_zeros((dist.get_world_size(group) * len(t), *t.shape[1:]))
    dist.all_gather_single(whole, t, group=group)
    return [whole]


def gather(group, t):
    last = dist.get_world_size(group) - 1
    outs = buffers(t, group) if dist.get_rank(group) == last else None
    dist.gather(t, outs, group=group, group_dst=last)
    return outs or []


def scatter(group, t):
    parts = None
    if dist.get_rank(group) == 0:
        parts = [t.roll(i, 1) for i in range(dist.get_world_size(group))]
    out = torch.zeros_like(t)
    dist.scatter(out, parts, group=group, group_src=0)
    return [out]


def broadcast(group, t):
    out = t.clone()
    dist.broadcast(out, group=group, group_src=dist.get_world_size(group) - 1)
    return [out]


def all_to_all_single(group, t):
    rows = t.repeat(dist.get_world_size(group), 1)
    out = torch.zeros_like(rows)
    dist.all_to_all_single(out, rows, group=group)
    return [out]


def all_to_all_single_uneven(group, t):
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    sent = list(range(size))
    rows = t[:1].repeat(sum(sent), 1)
    out = t.new_zeros((size * rank, t.shape[1]))
    dist.all_to_all_single(out, rows, [rank] * size, sent, group=group)
    return [out]


def send_and_recv(group, t):
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    got = torch.zeros_like(t, memory_format=torch.contiguous_format)
    if rank == 0:
        dist.send(t.contiguous(), group=group, group_dst=size - 1, tag=3)
    if rank == size - 1:
        dist.recv(got, group=group, group_src=0, tag=3)
    return [got]


def ring_of_messages(group, t):
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    got = torch.zeros_like(t, memory_format=torch.contiguous_format)
    works = [
        dist.isend(t.contiguous(), group=group, group_dst=(rank + 1) % size),
        dist.irecv(got, group=group, group_src=(rank - 1) % size),
    ]
    for work in works:
        work.wait()
    return [got]


def batch_isend_irecv(group, t):
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    got = torch.zeros_like(t, memory_format=torch.contiguous_format)
    there, back = (rank + 1) % size, (rank - 1) % size
    mine = t.contiguous()
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.irecv, got, group=group, group_peer=back),
            dist.P2POp(dist.isend, mine, group=group, group_peer=there),
        ]
    )
    for work in works:
        work.wait()
    return [got]


def recv_from_any(group, t):
    """Receive from whoever comes first; return what came, by sender."""
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    came = {}
    if rank:
        dist.send(t.contiguous(), group=group, group_dst=0)
    for _ in range(0 if rank else size - 1):
        got = torch.zeros_like(t, memory_format=torch.contiguous_format)
        came[dist.recv(got, group=group)] = got
    dist.barrier(group=group)  # what comes next must not be taken for this
    return [came[sender] for sender in sorted(came)]


def scalars(group, t):
    outs = buffers(t[0, 1], group)
    dist.all_gather(outs, t[0, 1], group=group)
    return outs


def nothing(group, t):
    outs = buffers(t[:0], group)
    dist.all_gather(outs, t[:0], group=group)
    return outs


def asynchronous(group, t):
    outs = buffers(t, group)
    first = dist.all_gather(outs, t, group=group, async_op=True)
    out = t.clone()
    second = dist.broadcast(out, group=group, group_src=0, async_op=True)
    second.wait()
    while not first.is_completed():
        pass
    return [*outs, out, *first.get_future().wait()[0]]


MOVES = {
    f.__name__: f
    for f in (
        all_gather,
        all_gather_single,
        gather,
        scatter,
        broadcast,
        all_to_all_single,
        all_to_all_single_uneven,
        send_and_recv,
        ring_of_messages,
        batch_isend_irecv,
        recv_from_any,
        scalars,
        nothing,
    )
}


def all_reduce(group, t, op):
    out = t.clone()
    dist.all_reduce(out, op, group=group)
    return out


def reduce(group, t, op):
    out = t.clone()
    dist.reduce(out, op=op, group=group, group_dst=0)
    return out if dist.get_rank(group) == 0 else torch.empty(0)


def reduce_scatter(group, t, op):
    parts = [t.roll(i, 1) for i in range(dist.get_world_size(group))]
    out = torch.zeros_like(t)
    dist.reduce_scatter(out, parts, op, group=group)
    return out


def reduce_scatter_single(group, t, op):
    parts = [t.roll(i, 1) for i in range(dist.get_world_size(group))]
    out = torch.zeros_like(t)
    dist.reduce_scatter_single(out, torch.cat(parts), op, group=group)
    return out


REDUCTIONS = {
    f.__name__: f for f in (all_reduce, reduce, reduce_scatter, reduce_scatter_single)
}


def in_one_process(name: str, group, t: torch.Tensor, op: str) -> torch.Tensor:
    """Return what a reduction gives, computed here from what all ranks hold."""
    every = [None] * dist.get_world_size(group)
    dist.all_gather_object(every, t, group=group)
    rank = dist.get_rank(group)
    if "scatter" in name:
        every = [tensor.roll(rank, 1) for tensor in every]
    if name == "reduce" and rank:
        return torch.empty(0)
    combine = {
        "SUM": torch.add,
        "AVG": torch.add,
        "PRODUCT": torch.mul,
        "MIN": torch.minimum,
        "MAX": torch.maximum,
        "BAND": torch.bitwise_and,
        "BOR": torch.bitwise_or,
        "BXOR": torch.bitwise_xor,
    }[op]
    total = every[0]
    for tensor in every[1:]:
        total = combine(total, tensor)
    return total / len(every) if op == "AVG" else total


def same(ours: list, theirs: list) -> bool:
    """Tell whether two lists of tensors agree, dtypes included."""
    pairs = zip(ours, theirs, strict=True)
    return all(a.dtype == b.dtype and torch.equal(a, b) for a, b in pairs)


def bits(t: torch.Tensor) -> torch.Tensor:
    """Return the memory of a tensor as bytes, a row for each of its rows."""
    return t.contiguous().view(torch.uint8)


def moves(group, gloo) -> Iterator[str]:
    """Yield what moves otherwise than over gloo, which moves the rest as bytes."""
    for name, call in MOVES.items():
        for dtype in MOVED:
            for layout in LAYOUTS:
                t = shard(dtype, layout)
                if not same(call(group, t), call(gloo, t.contiguous())):
                    yield f"{name} {dtype} {layout}"
        for dtype in UNKNOWN if name not in ("scatter", "scalars") else ():
            ours, theirs = call(group, shard(dtype)), call(gloo, bits(shard(dtype)))
            if not same([bits(t) for t in ours], theirs):
                yield f"{name} {dtype}"


def reductions(group, gloo) -> Iterator[str]:
    """Yield what is reduced otherwise than in one process, or over gloo."""
    cases = [(dtype, op) for dtype in (*ADDED, torch.int16) for op in COMPARING]
    cases += [(dtype, op) for dtype in (torch.int32, torch.uint8) for op in BITWISE]
    cases += [(dtype, "AVG") for dtype in (torch.float32, torch.bfloat16)]
    cases += [(torch.bool, op) for op in (*COMPARING, *BITWISE)]
    for name, call in REDUCTIONS.items():
        for dtype, op in cases:
            for layout in LAYOUTS:
                t = shard(dtype, layout)
                ours = call(group, t, getattr(dist.ReduceOp, op))
                theirs = in_one_process(name, gloo, t, op)
                if not torch.equal(ours, theirs.to(ours.dtype)):
                    yield f"{name} {dtype} {op} {layout}"
    for dtype in (torch.float32, torch.int64, torch.bfloat16):
        added = [all_reduce(g, shard(dtype), dist.ReduceOp.SUM) for g in (group, gloo)]
        if not torch.equal(*added):
            yield f"all_reduce {dtype} over gloo"


def objects(group, gloo) -> Iterator[str]:
    """Yield objects that come out otherwise than over gloo."""
    size, mine = dist.get_world_size(group), {"rank": dist.get_rank(), "x": "ä" * 50}

    def every(group) -> list:
        said = [None] * size
        dist.all_gather_object(said, mine, group=group)
        at_root = [None] * size if dist.get_rank(group) == 0 else None
        dist.gather_object(mine, at_root, group=group, group_dst=0)
        told = [mine, dist.get_rank(group)]
        dist.broadcast_object_list(told, group=group, group_src=size - 1)
        got = [None]
        handed = [f"for {i}" for i in range(size)]
        dist.scatter_object_list(got, handed, group=group, group_src=0)
        return [said, at_root, told, got]

    if every(group) != every(gloo):
        yield f"{every(group)} is not {every(gloo)}"


def large_messages(group, gloo) -> Iterator[str]:
    """Yield what goes wrong with more than MPI sends at once."""
    t = torch.arange(2**20, dtype=torch.float32).view(2, -1) + dist.get_rank()
    for name in ("all_gather", "broadcast", "send_and_recv", "batch_isend_irecv"):
        if not same(MOVES[name](group, t), MOVES[name](gloo, t)):
            yield name


def asynchronous_work(group, gloo) -> Iterator[str]:
    """Yield what asynchronous work brings otherwise than gloo's."""
    t = shard(torch.float32)
    if not same(asynchronous(group, t), asynchronous(gloo, t)):
        yield "results"
    outs = buffers(t, group)
    result = dist.all_gather(outs, t, group=group, async_op=True).get_future().wait()
    if not same(result, all_gather(gloo, t)):
        yield "the future"


def lists_to_all(group, gloo) -> Iterator[str]:
    """Yield what all_to_all does wrong with pieces of many sizes; gloo has none."""
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    outs = [torch.empty(rank + 1) for _ in range(size)]
    sent = [torch.full((i + 1,), 10.0 * rank + i) for i in range(size)]
    dist.all_to_all(outs, sent, group=group)
    if not same(outs, [torch.full((rank + 1,), 10.0 * i + rank) for i in range(size)]):
        yield str(outs)


def gradients(group, gloo) -> Iterator[str]:
    """Yield what DistributedDataParallel averages otherwise than over gloo."""
    grads = []
    for over in (group, gloo):
        torch.manual_seed(1)
        model = torch.nn.Linear(3, 2)
        wrapped = torch.nn.parallel.DistributedDataParallel(model, process_group=over)
        wrapped(shard(torch.float32)).square().sum().backward()
        grads.append(model.weight.grad)
    if not torch.allclose(*grads):
        yield f"{grads[0]} is not {grads[1]}"


def failure(call) -> str:
    """Return the text of the error that a call raises."""
    try:
        call()
    except (RuntimeError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def errors(group, gloo) -> Iterator[str]:
    """Yield errors that are not raised, or say something else."""
    t, size = torch.ones(3), dist.get_world_size(group)
    uneven = [torch.empty(3 + i) for i in range(size)]
    band = dist.ReduceOp.BAND
    cases = {
        "of torch.float32 at position 1": lambda: dist.all_gather(
            uneven, t, group=group
        ),
        "by BAND": lambda: dist.all_reduce(t, band, group=group),
        "times 3 elements": lambda: dist.all_gather_single(
            torch.empty(5), t, group=group
        ),
        "got one on meta": lambda: dist.broadcast(
            t.to("meta"), group=group, group_src=0
        ),
    }
    for said, call in cases.items():
        if said not in (text := failure(call)):
            yield f"{said!r} is not in {text!r}"
    if dist.get_rank(group) == 0:
        dist.send(torch.ones(9), group=group, group_dst=1)
    if dist.get_rank(group) == 1:  # longer than what it is received into
        text = failure(lambda: dist.recv(t, group=group, group_src=0))
        if "mpi: the group failed in recv: Message truncated" not in text:
            yield f"a message that is too long: {text!r}"
    dist.barrier(group=group)


def time_out(group, gloo) -> Iterator[str]:
    """Yield what goes wrong where one rank does not come; the others go on later."""
    members = dist.get_process_group_ranks(group)
    impatient = dist.new_group(
        members, timeout=timedelta(seconds=0.5), use_local_synchronization=True
    )
    if dist.get_rank(group):
        text = failure(lambda: dist.barrier(group=impatient))
        if "Timed out waiting 0.5 s for barrier" not in text:
            yield text
    dist.barrier(group=group)
    dist.destroy_process_group(impatient)


COMPARISONS = (
    moves,
    reductions,
    objects,
    large_messages,
    asynchronous_work,
    lists_to_all,
    gradients,
    errors,
    time_out,
)


def found(compare, group, gloo) -> list[str]:
    """Return what a comparison yields, and the error that ends it."""
    wrong = []
    try:
        wrong.extend(compare(group, gloo))
    except Exception:
        wrong.append(traceback.format_exc())
    return wrong


def main() -> None:
    """Compare on the world and on a part of it, and write what differs."""
    name = mpi_backend.register()
    from mpi4py import MPI

    folder, rank = Path(sys.argv[1]), MPI.COMM_WORLD.rank
    dist.init_process_group(
        name,
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=MPI.COMM_WORLD.size,
        timeout=timedelta(seconds=20),
    )
    wrong = {compare.__name__: {} for compare in COMPARISONS}
    for members in ([0, 1, 2, 3], [1, 3]):
        group, gloo = dist.new_group(members), dist.new_group(members, backend="gloo")
        for compare in COMPARISONS if rank in members else ():
            if here := found(compare, group, gloo):
                wrong[compare.__name__][str(members)] = here
    told = {"backend": dist.get_backend(), "wrong": wrong}
    dist.destroy_process_group()
    (folder / f"{rank}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
