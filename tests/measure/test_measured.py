"""What `measure` measures against known bytes, formulas, the kernel and a slow rank."""

from statistics import median

import pytest

from course_utils import launch
from course_utils.measure import prediction, resident
from course_utils.text.errors import RankError

MIB = 2**20
ON_RANKS = r'''
import time
from functools import partial

import torch
import torch.distributed as dist

from course_utils import concat
from course_utils.concat import shared
from course_utils.measure import in_turns, peak_memory, seconds
from course_utils.measure import memory_limit, resident_memory, return_freed_memory
from course_utils.measure import sent_bytes


def known(size):
    """Allocate twice `size`, then keep one half of it."""
    with peak_memory() as memory:
        kept, gone = torch.ones(size // 4), torch.ones(size // 4)
        del gone
    return memory.peak, memory.kept


def witness(size):
    with resident_memory() as memory:
        kept, gone = torch.ones(size // 4), torch.ones(size // 4)
        del gone
    return memory.peak, memory.kept


def ways(shard):
    """Return every way to move a tensor, as functions without arguments."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    root, count = rank == 0, shard.numel()
    full = torch.zeros(world_size * count) if root else None

    def all_gather():
        buffers = [torch.empty_like(shard) for _ in range(world_size)]
        dist.all_gather(buffers, shard)
        return buffers

    def all_gather_single():
        whole = torch.empty(world_size * count)
        dist.all_gather_single(whole, shard)
        return whole

    def all_gather_object():
        whole = [None] * world_size
        dist.all_gather_object(whole, shard)
        return whole

    def gather():
        buffers = all_buffers(shard) if root else None
        dist.gather(shard, buffers)
        return buffers

    def all_buffers(like):
        return [torch.empty_like(like) for _ in range(world_size)]

    def gather_pieces():
        whole = torch.empty(world_size, count) if root else None
        pieces = shard.chunk(8)
        buffers = all_buffers(pieces[0]) if root else None
        for i, piece in enumerate(pieces):
            dist.gather(piece, buffers)
            if root:
                for row, buffer in zip(whole, buffers):
                    row.chunk(8)[i].copy_(buffer)
        return whole

    def gather_object():
        whole = [None] * world_size if root else None
        dist.gather_object(shard, whole)
        return whole

    def scatter():
        own = torch.empty(count)
        dist.scatter(own, list(full.chunk(world_size)) if root else None)
        return own

    def broadcast():
        whole = full if root else torch.empty(world_size * count)
        dist.broadcast(whole, 0)
        return whole

    def broadcast_object_list():
        box = [full]
        dist.broadcast_object_list(box, 0)
        return box

    def gather_cat():
        buffers = gather()
        return torch.cat(buffers) if root else None

    return {
        "all_gather": all_gather,
        "all_gather + cat": lambda: torch.cat(all_gather()),
        "all_gather_single": all_gather_single,
        "all_gather_object": all_gather_object,
        "all_gather_cat": lambda: concat.all_gather_cat(shard),
        "gather": gather,
        "gather + cat": gather_cat,
        "gather, 8 pieces": gather_pieces,
        "gather_object": gather_object,
        "gather_cat": lambda: concat.gather_cat(shard),
        "scatter": scatter,
        "scatter_chunks": lambda: concat.scatter_chunks(full),
        "broadcast": broadcast,
        "broadcast_tensor": lambda: concat.broadcast_tensor(full),
        "broadcast_object_list": broadcast_object_list,
        "write shards": lambda: None,
    }


def used(way, size):
    shard = torch.ones(size // 4)
    call = ways(shard)[way]
    dist.barrier()
    with peak_memory() as memory:
        result = call()
    return memory.peak


def seen(way, size):
    shard = torch.ones(size // 4)
    call = ways(shard)[way]
    dist.barrier()
    with resident_memory() as memory:
        result = call()
    return memory.peak


def wire(way, size):
    call = ways(torch.ones(size // 4))[way]
    dist.barrier()
    time.sleep(0.1)  # whoever has left the barrier may still be sending for it
    before = sent_bytes()
    dist.barrier()
    result = call()
    dist.barrier()
    time.sleep(0.1)  # what was handed to the kernel has left, too
    return sent_bytes() - before


def limited(way, size, budget):
    """Return what a way says under a limit, and a sum over all ranks behind it."""
    call = ways(torch.ones(size // 4))[way]
    try:
        with memory_limit(budget):
            call()
        said = "fits"
    except RuntimeError as error:
        said = str(error)
    total = torch.ones(1)
    dist.all_reduce(total)
    return said, total.item()


def slow(late):
    """Time a function in which one rank sleeps."""
    return seconds(lambda: time.sleep(0.05 * (dist.get_rank() == late)), 3, warm_up=0)
'''


@pytest.fixture(scope="module", params=[2, 3, 4])
def some(request):
    with launch(request.param, guard=False) as world:
        world.view.execute(ON_RANKS, block=True)
        yield world


def off(measured: int, expected: int) -> float:
    """Return the relative error in percent."""
    return 100 * abs(measured - expected) / expected


def test_known_bytes(some):
    """Within 0.5 % from 1 MB upward, on every rank, in 20 of 20 runs."""
    for size in [MIB, 4 * MIB + 4096, 32 * MIB] * 7:
        for peak, kept in some.run(eval, f"known({size})"):
            assert off(peak, 2 * size) <= 0.5 and off(kept, size) <= 0.5


@pytest.mark.parametrize("way", prediction.WAYS)
def test_every_way_needs_what_its_formula_says(some, way):
    """gloo's hidden buffers included; a pickle adds a few hundred bytes."""
    size = 2 * MIB
    expected = prediction.cost(way, len(some), size)
    root, *others = some.run(eval, f"used({way!r}, {size})")
    for measured, bytes_ in [
        (root, expected.root_peak),
        *((other, expected.peak) for other in others),
    ]:
        assert off(measured, bytes_) <= 0.5 if bytes_ else measured < 4096


@pytest.mark.parametrize("way", prediction.WAYS)
def test_every_way_sends_what_its_formula_says(some, way):
    """Counted by the kernel, on all ranks; messages have small headers of their own.

    As between hosts: ranks of one host would use shared memory.
    """
    size = 2 * MIB
    some.run(exec, "shared.dock_of(dist.group.WORLD).works = False")
    expected = prediction.cost(way, len(some), size).sent
    sent = sum(some.run(eval, f"wire({way!r}, {size})"))
    assert abs(sent - expected) <= 0.01 * expected + 16384


def test_the_witness_agrees():
    """The operating system sees the same, within 2 % from 8 MB, gloo's part too.

    It sees whatever else the process touches meanwhile, too: a median of three.
    """
    size = 8 * MIB
    with launch(4, guard=False) as ranks:
        ranks.view.execute(ON_RANKS, block=True)
        ranks.run(eval, f"witness({size})")  # touches pages of code
        runs = [ranks.run(eval, f"witness({size})") for _ in range(3)]
        for seen in zip(*runs, strict=True):
            peak, kept = map(median, zip(*seen, strict=True))
            assert off(peak, 2 * size) <= 2 and off(kept, size) <= 2
        for way in ("all_gather", "all_gather + cat", "all_gather_cat"):
            expected = prediction.cost(way, 4, size).peak
            ranks.run(eval, f"seen({way!r}, {size})")
            runs = [ranks.run(eval, f"seen({way!r}, {size})") for _ in range(3)]
            for peaks in zip(*runs, strict=True):
                assert off(median(peaks), expected) <= 2, way


@pytest.mark.parametrize("limit_first", [True, False])
def test_a_limit_holds_or_is_refused(limit_first):
    """Also after memory was used and freed; and the ranks go on either way."""
    size = 4 * MIB
    with launch(4, guard=False) as ranks:
        ranks.view.execute(ON_RANKS, block=True)
        if limit_first:
            ranks.run(eval, "return_freed_memory()")
        ranks.run(eval, f"[ways(torch.ones({size} // 4))['all_gather']() and 0, 0]")
        for _ in range(2):
            tight = ranks.run(eval, f"limited('all_gather', {size}, 6 * {size})")
            roomy = ranks.run(eval, f"limited('all_gather', {size}, 9 * {size})")
            pieces = ranks.run(eval, f"limited('all_gather_cat', {size}, 6 * {size})")
            assert [n for _, n in tight + roomy + pieces] == [4.0] * 12
            if limit_first:
                refused = f"can't allocate memory: you tried to allocate {4 * size}"
                assert all(refused in said for said, _ in tight)
                assert all(said == "fits" for said, _ in roomy + pieces)
            else:
                asked = "call return_freed_memory() before the first large tensor"
                assert all(asked in said for said, _ in tight + roomy + pieces)


def test_a_limit_of_what_is_no_count():
    for count in (-1, 2.5, True, None):
        with pytest.raises(ValueError, match="count: expected 0 bytes or more"):
            with resident.memory_limit(count):
                pass


def test_without_glibc(monkeypatch):
    """What cannot work says so; what is only a precaution does nothing."""
    monkeypatch.setattr(resident, "_glibc", lambda: None)
    resident.return_freed_memory()
    for refused in (resident.resident_memory(), resident.memory_limit(0)):
        with pytest.raises(OSError, match="expected Linux with glibc"), refused:
            pass


def test_the_slowest_rank_counts_and_all_are_told(some):
    told = some.run(eval, f"slow({len(some) - 1})")
    assert len({timing.times for timing in told}) == 1
    assert len(told[0].times) == 3
    assert min(told[0].times) >= 0.05


def test_functions_take_turns(some):
    """A stretch in which the machine is busy hits every function, not one of them."""
    order = "(n := [], in_turns({k: partial(n.append, k) for k in 'ab'}, 3), n)[2]"
    warmed_up = ["a"] * 4 + ["b"] * 4
    assert some.run(eval, order) == [[*warmed_up, *"ababab"]] * len(some)
    timings = some.run(eval, "in_turns({'a': int, 'b': partial(time.sleep, 0.05)}, 3)")
    assert all(timing == timings[0] for timing in timings)
    assert list(timings[0]) == ["a", "b"]
    assert min(timings[0]["b"].times) >= 0.05


def test_the_check_of_the_result_runs_once_and_all_are_told(some):
    with pytest.raises(RankError, match="its result is wrong on rank 1") as failed:
        some.run(eval, "seconds(dist.get_rank, 2, correct=lambda r: r != 1)")
    assert str(failed.value).startswith(f"[ranks 0–{len(some) - 1}] ")
    calls = "(n := [], seconds(lambda: 1, 2, correct=lambda r: not n.append(r)), n)[2]"
    assert some.run(eval, calls) == [[1]] * len(some)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("seconds(3)", "function: expected something to call, got 3"),
        ("seconds(int, 0)", "expected whole numbers of 1 or more and of 0 or more"),
        ("seconds(int, -2)", "expected whole numbers"),
        ("seconds(int, 2.5)", "expected whole numbers"),
        ("seconds(int, 2, warm_up=-1)", "expected whole numbers"),
        ("seconds(int, 2 + (dist.get_rank() == 1))", "than on rank 0 on rank 1"),
        ("seconds(int, 2 - 2 * (dist.get_rank() == 1))", "got others on rank 1"),
        ("in_turns({'a': 3})", "function: expected something to call, got 3"),
        ("in_turns({dist.get_rank() == 1: int})", "than on rank 0 on rank 1"),
    ],
)
def test_bad_input_gives_the_same_error_on_every_rank(some, call, said):
    with pytest.raises(RankError) as failed:
        some.run(eval, call)
    assert str(failed.value).startswith(f"[ranks 0–{len(some) - 1}] ")
    assert said in str(failed.value)


def test_without_a_process_group():
    with launch(1, init=False) as ranks:
        ranks.view.execute("from course_utils.measure import *", block=True)
        with pytest.raises(RankError, match="no process group"):
            ranks.run(eval, "seconds(int)")
