"""Between hosts every piece crosses once, and on a host it is handed on.

That what comes is right, `test_concat` finds out.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from course_utils import launch
from course_utils.concat.hosts import held_by, holders
from course_utils.world.ranks import Ranks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memfd is of Linux")
HERE = Path(__file__).parent
CALLS = [(HERE / f"{name}_calls.py").read_text() for name in ("shared", "hosts")]
BIG = 100_000  # elements
COUNTED = 4 * BIG  # elements, where bytes are counted
BYTES = 4 * COUNTED
SMALL = BYTES // 4  # what else a rank sends in a call: a slow one is asked how it is


@contextmanager
def scattered(*places: int) -> Iterator[Ranks]:
    """Launch ranks that take themselves for ranks on hosts of these numbers."""
    with launch(len(places), guard=False) as ranks:
        prepare(ranks)
        ranks.run(eval, f"be_on({places}[me])")
        yield ranks


def prepare(ranks: Ranks) -> None:
    """Have the calls of these tests stand ready."""
    for calls in CALLS:
        ranks.view.execute(calls, block=True)


@pytest.fixture
def four() -> Iterator[Ranks]:
    """Return two ranks each on two hosts."""
    with scattered(0, 0, 1, 1) as ranks:
        yield ranks


def sent(ranks: Ranks, call: str) -> list[int]:
    """Return the bytes that each rank sends in a call, which must be right."""
    before = ranks.run(eval, "sent_bytes()")
    assert ranks.run(eval, call) == [True] * len(ranks)
    after = ranks.run(eval, "sent_bytes()")
    return [now - then for then, now in zip(before, after, strict=True)]


def test_every_piece_crosses_once(four):
    assert four.run(eval, f"is_right({COUNTED})") == [True] * 4
    found = sent(four, f"is_right({COUNTED}, 1)")
    assert all(0 <= one - BYTES < SMALL for one in found)


def test_a_rank_sends_once_to_each_other_host():
    with scattered(0, 1, 1, 2) as ranks:
        assert ranks.run(eval, f"is_right({COUNTED})") == [True] * 4
        found = sent(ranks, f"is_right({COUNTED}, 1)")
        assert all(0 <= one - 2 * BYTES < SMALL for one in found)


def test_one_rank_a_host_needs_nobody():
    with scattered(0, 1, 2) as ranks:
        assert ranks.run(eval, f"is_right({BIG})") == [True] * 3
        assert ranks.run(eval, "crowd()") == [None] * 3


def test_memory_of_another_host_is_not_read(four):
    """Where the root alone brings something, its numbers might fit another memory."""
    assert four.run(eval, f"is_told({BIG}, 1)") == [True] * 4
    assert four.run(eval, "dock().is_over") == [True] * 4


def test_a_rank_that_holds_nothing_stays_in_memory():
    with scattered(0, 0, 0, 1) as ranks:
        shown = f"concat.all_gather_cat(shard_of(me, {BIG} * (me != 2))).numel()"
        assert ranks.run(eval, shown) == [3 * BIG] * 4
        assert ranks.run(eval, "crowd().dock.is_over") == [False] * 3 + [True]


def test_in_several_rounds(four):
    four.run(exec, "hosts.ROUND = 10_001")
    for count in (BIG, 5000, 2001):
        assert four.run(eval, f"is_right({count})") == [True] * 4
    assert set(four.run(eval, "crowd().dock.half")) == {2**16}


LINES = {  # which ranks send the root's bytes, by root, on hosts of these numbers
    (0, 0, 1, 1): {0: [0], 1: [1], 3: [3]},
    (0, 1, 1, 2): {0: [0, 1], 1: [1, 3], 3: [3, 0]},
    (0, 0, 0, 1): {1: [1], 3: [3]},
}


@pytest.mark.parametrize("places", LINES)
def test_the_bytes_of_a_root_go_from_host_to_host(places):
    with scattered(*places) as ranks:
        for root, line in LINES[places].items():
            assert ranks.run(eval, f"is_told({COUNTED}, {root})") == [True] * 4
            found = sent(ranks, f"is_told({COUNTED}, {root}, 1)")
            for rank, one in enumerate(found):
                assert 0 <= one - BYTES * (rank in line) < SMALL


def test_the_bytes_of_a_root_cross_once_by_sockets_too(four):
    assert four.run(eval, f"is_told({COUNTED}, 1)") == [True] * 4
    four.run(exec, "crowd().dock.is_over = True")
    found = sent(four, f"is_told({COUNTED}, 1, 1)")
    whole = [round(one / BYTES) for one in found]
    assert whole == [0, 2, 0, 1]  # rank 1 to ranks 0 and 3, which gives rank 2


def test_a_root_sends_in_steps(four):
    four.run(exec, "relay.LEAST, relay.STEP = 0, 10_001")
    for count, root in [(BIG, 0), (5000, 3), (2001, 1), (1, 2)]:
        assert four.run(eval, f"is_told({count}, {root})") == [True] * 4
    assert max(four.run(eval, "crowd().dock.half")) == 2**16


def test_what_is_read_is_of_this_call(four):
    four.run(exec, "relay.LEAST, relay.STEP = 0, 60_000")
    assert four.run(eval, "calls_in_no_order(5, 300)") == [[]] * 4
    assert four.run(eval, "crowd().dock.is_over") == [False] * 4


OVER = {
    "me == 1": [True, True, False, False],
    "me > 1": [False, False, True, True],
    "True": [True] * 4,
}


@pytest.mark.parametrize("who", OVER)
@pytest.mark.parametrize("broken", ["del os.memfd_create", "shared.reached = open"])
@pytest.mark.parametrize("call", ["is_right({})", "is_told({}, 1)"])
def test_a_host_without_shared_memory_hands_on_by_sockets(four, call, broken, who):
    """What crosses stays the same; the other host goes on in memory."""
    assert four.run(eval, call.format(BIG)) == [True] * 4
    four.view.execute(f"if {who}:\n    {broken}", block=True)
    for _ in range(3):
        assert four.run(eval, call.format(8 * BIG)) == [True] * 4
    assert four.run(eval, "crowd().dock.is_over") == OVER[who]


@pytest.mark.parametrize("who", ["me == 1", "True"])
def test_where_a_rank_may_not_share_all_send_to_all(four, who):
    four.run(exec, f"if {who}: os.environ['CONCAT_SHARED_MEMORY'] = '0'")
    assert four.run(eval, f"is_right({BIG})") == [True] * 4
    assert four.run(eval, "crowd()") == [None] * 4


@pytest.mark.inside
def test_on_two_hosts():
    with launch(4, hosts=2, guard=False) as ranks:
        prepare(ranks)
        assert ranks.run(eval, f"is_right({COUNTED})") == [True] * 4
        found = sent(ranks, f"is_right({COUNTED}, 1)")
        assert all(0 <= one - BYTES < SMALL for one in found)
        found = sent(ranks, f"is_told({COUNTED}, 1)")
        assert [round(one / BYTES) for one in found] == [0, 1, 0, 0]


def test_the_pieces_from_elsewhere_are_shared_out():
    found = holders([3, 4], list(range(8)))
    assert held_by(3, found) == [0, 2, 3, 6]
    assert held_by(4, found) == [1, 4, 5, 7]
