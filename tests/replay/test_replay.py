"""Replays of what real ranks send: right and wrong rings, and what goes wrong."""

import io
import itertools

import pytest
from ipyparallel import interactive
from PIL import Image

from course_utils import launch
from course_utils.replay.scenes import LENGTH, scenes
from course_utils.text.errors import RankError
from course_utils.world.ranks import Ranks

FUNCTIONS = """
import time

import torch
import torch.distributed as dist
from torch.distributed import irecv, isend

rank, world_size = dist.get_rank(), dist.get_world_size()
right, left = (rank + 1) % world_size, (rank - 1) % world_size
shard = 100 * rank + torch.arange(2)


def ring(shard, wrong=False, late=None):
    parts = [torch.empty_like(shard) for _ in range(world_size)]
    parts[rank].copy_(shard)
    time.sleep(0.5 if rank == late else 0)
    for step in range(1, world_size):
        i = rank if wrong else (rank - step + 1) % world_size
        work = dist.isend(parts[i], right)
        dist.recv(parts[(rank - step) % world_size], left)
        work.wait()
    return parts


def swap(shard):
    other = torch.empty_like(shard)
    works = [irecv(other, rank ^ 1), isend(shard, rank ^ 1)]
    for work in works:
        work.wait()


def batch(shard):
    other = torch.empty_like(shard)
    ops = [dist.P2POp(dist.isend, shard, right), dist.P2POp(dist.irecv, other, left)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()


def by_hand(shard):
    others = [torch.empty_like(shard) for _ in range(world_size)]
    if rank:
        dist.send(shard, 0, tag=rank)
    else:
        for source in range(1, world_size):
            dist.recv(others[source], tag=source)


def forgotten(shard):
    other = torch.empty_like(shard)
    works.append(isend(shard, right) if rank == 0 else None)
    works.append(irecv(other, left) if rank == 1 else None)


def pair(shard):
    other, group = torch.empty_like(shard), pairs[rank // 2]
    if rank % 2:
        dist.send(shard, group=group, group_dst=0)
    else:
        dist.recv(other, group=group, group_src=1)


def fails(shard):
    if rank == 1:
        raise ValueError("not me")


def stuck(shard):
    dist.recv(torch.empty_like(shard), left)


works = []
"""


def ready(ranks: Ranks) -> Ranks:
    ranks.view.execute(FUNCTIONS, block=True)
    return ranks


@pytest.fixture(scope="module")
def course(ranks) -> Ranks:
    return ready(ranks)


@interactive
def state() -> tuple:
    """Return this rank's profiler and functions of torch.distributed."""
    import sys

    from torch import distributed as dist

    names = "send recv isend irecv batch_isend_irecv barrier all_gather".split()
    functions = [getattr(dist, name) for name in names]
    marks = [(id(f), f.__module__, hasattr(f, "unguarded")) for f in functions]
    return sys.getprofile(), marks, id(dist.Work.wait), dist.get_world_size()


RING = """\
ring(shard): 12 messages in 3 steps

step  0→1        1→2        2→3        3→0
   1  [0 1]      [100 101]  [200 201]  [300 301]
   2  [300 301]  [0 1]      [100 101]  [200 201]
   3  [200 201]  [300 301]  [0 1]      [100 101]

rank  in the end
   0  [0 1]  [100 101]  [200 201]  [300 301]
   1  [0 1]  [100 101]  [200 201]  [300 301]
   2  [0 1]  [100 101]  [200 201]  [300 301]
   3  [0 1]  [100 101]  [200 201]  [300 301]"""


def test_a_ring(course):
    before = course.run(state)
    made = course.replay("ring(shard)")
    assert repr(made) == RING == repr(course.replay("ring(shard)"))
    assert Image.open(io.BytesIO(made.png)).n_frames > 4
    assert course.run(state) == before
    assert all(profiler is None for profiler, *_ in before)


def test_a_ring_that_sends_the_wrong_piece_leaves_holes(course):
    text = repr(course.replay("ring(shard, wrong=True)"))
    assert text.endswith(
        """
rank  in the end
   0  [0 1]  —          —          [300 301]
   1  [0 1]  [100 101]  —          —
   2  —      [100 101]  [200 201]  —
   3  —      —          [200 201]  [300 301]"""
    )


def test_a_rank_that_is_late_is_late_in_the_picture(course):
    made = course.replay("ring(shard, late=2)")
    assert repr(made) == RING.replace("ring(shard)", "ring(shard, late=2)")
    told, seen = made.story, scenes(made.story)
    number = next(i for i, m in enumerate(told.messages) if m.src == 2)
    left = told.messages[number].sent - told.start
    assert left >= 0.5e9  # ns
    before = list(
        itertools.takewhile(lambda s: number not in s.flying + s.arrived, seen)
    )
    whole = seen[-1].time
    assert sum(scene.seconds for scene in before) >= LENGTH * left / whole


def test_isend_and_irecv_under_their_own_names(course):
    text = repr(course.replay("swap(shard)"))
    assert text.startswith("swap(shard): 4 messages in 1 step\n")
    assert "step  0→1    1→0        2→3        3→2" in text


def test_a_batch(course):
    text = repr(course.replay("batch(shard)"))
    assert text.startswith("batch(shard): 4 messages in 1 step\n")
    assert "   0  [0 1]  —          —          [300 301]" in text


def test_receives_from_any_rank_and_tags(course):
    text = repr(course.replay("by_hand(shard)"))
    assert "step  1→0        2→0        3→0" in text
    assert "   0  [0 1]  [100 101]  [200 201]  [300 301]" in text


def test_ranks_of_a_sub_group_are_ranks_of_the_world(course):
    course.view.execute("pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]")
    text = repr(course.replay("pair(shard)"))
    assert "step  1→0        3→2" in text and "2 messages in 1 step" in text


def test_a_message_that_nobody_waits_for(course):
    made = course.replay("forgotten(shard)")
    assert "[0 1] not received" in repr(made)
    assert made.png
    course.view.execute("for work in works:\n    work and work.wait()", block=True)


def test_an_expression_without_a_name_for_the_shard(course):
    text = repr(course.replay("ring(100 * rank + torch.arange(2))"))
    assert text.partition("\n")[2] == RING.partition("\n")[2]


def test_nothing_is_sent(course):
    for expression in ("None", "shard + 1", " [dist.all_reduce(shard.clone())]"):
        made = course.replay(expression)
        assert repr(made) == f"nothing to replay: {expression.strip()} sends no message"
        assert set(made._repr_mimebundle_()[0]) == {"text/plain"}


def test_a_function_that_raises(course):
    before = course.run(state)
    with pytest.raises(RankError) as error:
        course.replay("fails(shard)")
    lines = FUNCTIONS.strip().splitlines()
    line = lines.index('        raise ValueError("not me")') + 1
    assert str(error.value).startswith(f"[rank 1] ValueError at line {line}: raise")
    assert "not me" in str(error.value) and "rank 0" not in str(error.value)
    with pytest.raises(RankError, match="name 'rung' is not defined"):
        course.replay("rung(shard)")
    assert course.run(state) == before
    assert repr(course.replay("ring(shard)")) == RING


@pytest.mark.parametrize("expression", ["x = 1", "", "ring(", "a\nb", "%px rank"])
def test_what_is_no_expression_is_refused(course, expression):
    with pytest.raises(ValueError, match="expected an expression, as in replay"):
        course.replay(expression)


def test_what_is_no_text_is_refused(course):
    with pytest.raises(TypeError, match="expected an expression.*got function"):
        course.replay(ready)


def test_a_ring_that_deadlocks_ends_with_the_usual_report():
    with launch(2, patience=1) as ranks:
        ready(ranks)
        with pytest.raises(RankError) as error:
            ranks.replay("stuck(shard)")
        text = str(error.value)
        assert "every rank receives first, so nobody comes to its send" in text
        assert "repaired" in text
        assert [profiler for profiler, *_ in ranks.run(state)] == [None] * 2
        assert "2 messages in 1 step" in repr(ranks.replay("ring(shard)"))


def test_five_ranks():
    with launch(5) as ranks:
        text = repr(ready(ranks).replay("ring(shard)"))
    assert text.startswith("ring(shard): 20 messages in 4 steps\n")
    assert text.count("[0 1]  [100 101]  [200 201]  [300 301]  [400 401]") == 5


def test_without_a_process_group():
    with launch(2, init=False) as ranks:
        assert "sends no message" in repr(ranks.replay("1"))
        with pytest.raises(RankError, match="process group"):
            ranks.replay(
                "__import__('torch').distributed.send(__import__('torch').ones(1), 1)"
            )
