"""Larger pieces of ranks on one host go through shared memory, or else sockets."""

import sys
from pathlib import Path

import pytest

from course_utils import launch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memfd is of Linux")
CALLS = (Path(__file__).parent / "shared_calls.py").read_text()
BIG = 100_000  # elements: 400 kB


@pytest.fixture
def three():
    """Return three ranks that share nothing yet."""
    with launch(3, guard=False) as ranks:
        ranks.view.execute(CALLS, block=True)
        yield ranks


def test_no_socket_carries_them(three):
    assert three.run(eval, f"is_right({BIG})") == [True] * 3
    before = three.run(eval, "sent_bytes()")
    assert three.run(eval, f"is_right({BIG}, 1)") == [True] * 3
    after = three.run(eval, "sent_bytes()")
    sent = [now - then for then, now in zip(before, after, strict=True)]
    assert max(sent) < 4 * BIG  # of 8 * BIG; a slow call is asked how it is


def test_what_is_read_is_of_this_call(three):
    assert three.run(eval, "calls_in_no_order(5, 300)") == [[]] * 3
    assert three.run(eval, "dock().is_over") == [False] * 3


def test_memory_grows_and_is_bounded(three):
    for count in (20_000, BIG, 3_000, 2 * BIG, 20_000):
        assert three.run(eval, f"is_right({count})") == [True] * 3
    open_now = three.run(eval, "memories()")
    kept = [2 * 2**20] * 5  # two halves of 800 kB, rounded up: open, and four mapped
    assert open_now == [(kept, 4)] * 3
    three.run(exec, "shared.LARGEST = concat.tell.LARGEST = 2**20")
    assert three.run(eval, f"is_right({3 * BIG})") == [True] * 3
    assert three.run(eval, "memories()") == open_now


def test_a_group_that_ends_leaves_none(three):
    three.run(exec, "group = dist.new_group([0, 1, 2])")
    three.run(exec, f"full = concat.all_gather_cat(torch.ones({BIG}), 0, group)")
    assert three.run(eval, "memories()[1]") == [4] * 3
    three.run(exec, "dist.destroy_process_group(group); del group")
    assert three.run(eval, "memories()") == [([], 0)] * 3


REASONS = {
    "cannot have it": "del os.memfd_create",
    "on several hosts": "shared.this_host = lambda: 2 + me",
    "cannot reach": "shared.reached = open",  # which takes no berth
}


@pytest.mark.parametrize("said", REASONS)
@pytest.mark.parametrize("who", ["dist.get_rank() == 1", "True"])
def test_without_it_sockets_do_it_and_it_is_said_once(three, said, who):
    three.run(exec, "import os; os.environ['CONCAT_SHARED_MEMORY'] = 'debug'")
    broken = f"if {who}:\n    " + REASONS[said].replace("\n", "\n    ")
    three.view.execute(broken, block=True)
    three.view.execute(
        "import contextlib, io\nheard = io.StringIO()\n"
        "with contextlib.redirect_stderr(heard):\n"
        f"    right = [is_right({BIG}, call) for call in range(3)]",
        block=True,
    )
    assert three.run(eval, "right") == [[True] * 3] * 3
    assert three.run(eval, "memories()") == [([], 0)] * 3
    told = three.run(eval, "heard.getvalue()")
    assert any(said in text for text in told)
    assert all(1 <= text.count("no shared memory") <= 2 for text in told)


def test_one_rank_may_turn_it_off(monkeypatch):
    with launch(3, guard=False) as ranks:
        ranks.view.execute(CALLS, block=True)
        ranks.run(exec, "dock().works = me != 2")
        shown = f"is_right({BIG})"
        assert ranks.run(eval, shown) == [True] * 3
        assert ranks.run(eval, "dock().is_over") == [True] * 3


def test_the_switch_is_read(monkeypatch):
    monkeypatch.setenv("CONCAT_SHARED_MEMORY", "0")
    with launch(2, guard=False) as ranks:
        ranks.view.execute(CALLS, block=True)
        assert ranks.run(eval, f"is_right({BIG})") == [True] * 2
        assert ranks.run(eval, "memories()") == [([], 0)] * 2


def test_an_error_in_between_upsets_nothing(three):
    """A rank that fails after others have loaded theirs; and one that fails to load."""
    three.view.execute(
        f"""
def attempt(value):
    try:
        return concat.all_gather_cat(value).numel()
    except concat.ConcatError:
        return "failed"
seen = [attempt(torch.ones({BIG}) if me else None), is_right({BIG}),
        attempt(torch.ones({BIG}) if me else torch.ones(5).int()), is_right({BIG}, 1),
        attempt(torch.ones({3 * BIG}) if me else None), is_right({2 * BIG}, 2)]
""",
        block=True,
    )
    expected = ["failed", True] * 3
    assert three.run(eval, "seen") == [expected] * 3
    assert three.run(eval, "dock().is_over") == [False] * 3
