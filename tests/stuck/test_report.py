"""Reports, as text."""

import pytest

from course_utils.stuck import report
from course_utils.stuck.states import RankState

pytestmark = pytest.mark.unit

LOG = """\
Fatal Python error: Aborted

Thread 0x00007f07 (most recent call first):
  File "/lib/selectors.py", line 468 in select

Current thread 0x00007f08 (most recent call first):
  File "/lib/torch/distributed.py", line 31 in broadcast
  File "/tmp/ipykernel_77/1722.py", line 2 in <module>
  File "/lib/ipykernel/ipkernel.py", line 460 in do_execute
  <invalid frame>

Extension modules: numpy (total: 1)
2026-11-30 12:07:12 [KernelNanny.1] Parent 23959 exited with status None.
"""
STATES = {
    0: RankState("waits", call="barrier", line=2),
    1: RankState("missed"),
}


class Gone:
    """Stands in for a world in which ranks died."""

    def __init__(self, words: str) -> None:
        self.words = words

    def __len__(self) -> int:
        return 3

    def ending(self, rank: int) -> str:
        return "signal 6, SIGABRT"

    def is_lost(self, rank: int) -> bool:
        return False

    def place(self, rank: int) -> str:
        return ""

    def last_words(self, rank: int) -> str:
        return self.words


def test_stuck():
    assert report.stuck(STATES, {}, "if a:\n    dist.barrier()", 5) == (
        "stuck: rank 0 waits for rank 1\n"
        "  [rank 0] waits in barrier at line 2 for 5 s\n"
        "  [rank 1] finished without calling it\n"
        "  likely cause: line 2 stands under `if a:`, so rank 1 never came to barrier; "
        "every rank of the group has to call it"
    )


def test_stuck_without_a_known_cause():
    states = {0: STATES[0], 1: STATES[0]}
    assert report.stuck(states, {}, "", 0.5) == (
        "stuck: ranks 0–1 wait for one another\n"
        "  [ranks 0–1] wait in barrier at line 2 for 0.5 s"
    )


def test_error_comes_first():
    states = {0: STATES[0], 1: RankState("failed")}
    text = report.stuck(states, {1: "ValueError at line 1: f()\n  no"}, "", 5)
    assert text == (
        "[rank 1] ValueError at line 1: f()\n"
        "  no\n"
        "  [rank 0] waits in barrier at line 2"
    )


def test_interrupted():
    assert report.interrupted({0: STATES[0], 1: RankState("runs", line=4)}) == (
        "interrupted:\n"
        "  [rank 0] waits in barrier at line 2\n"
        "  [rank 1] computes at line 4"
    )


def test_died_with_last_words():
    assert report.died(Gone(LOG), [1]) == (
        "[rank 1] died: signal 6, SIGABRT\n"
        "  its last words:\n"
        "    Fatal Python error: Aborted\n"
        "    at line 2 of the cell"
    )


def test_died_in_silence():
    assert report.died(Gone(""), [0, 2]) == (
        "[rank 0] died: signal 6, SIGABRT\n[rank 2] died: signal 6, SIGABRT"
    )


def test_own_words_are_repeatable_and_few():
    words = report.own_words(
        "  what():  [enforce fail at /x/y/pair.cc:456] a <= b. 32 vs 8.\n"
        "<Thing object at 0x7f00>"
    )
    assert words == "what():  a <= b. 32 vs 8.\n<Thing>"
    assert report.own_words("\n".join(map(str, range(20)))).splitlines() == [
        str(n) for n in range(12, 20)
    ]


@pytest.mark.parametrize(
    ("dead", "text"),
    [
        ([1], "a new process at rank 1, ranks.shrink() goes on with the other 2"),
        ([0, 1], "a new process at ranks 0–1, ranks.shrink() goes on with the other 1"),
    ],
)
def test_how_to_go_on(dead, text):
    assert report.how_to_go_on(Gone(""), dead) == f"ranks.repair() brings in {text}"


@pytest.mark.parametrize(
    ("message", "broken"),
    [
        ("Connection closed by peer. Check", True),
        ("Rank 1 failed to pass monitoredBarrier in 500 ms", True),
        ("Timed out waiting 6000ms for recv operation to complete", True),
        ("list index out of range", False),
        ("", False),
    ],
)
def test_is_broken(message, broken):
    assert report.is_broken(message) == broken
