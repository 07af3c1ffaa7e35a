"""Bring a world back that is stuck or has lost a rank."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from course_utils import engine, setup
from course_utils.states import having
from course_utils.text import RankError, these_ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from course_utils.ranks import Ranks
    from course_utils.stall import Watched

GRACE = 1.0  # seconds between one means and the next, stronger one


@contextmanager
def undisturbed() -> Iterator[None]:
    """Take no interrupt meanwhile: half a repair would leave no world."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def settle(ranks: Ranks, watched: Watched, interrupt: bool = False) -> None:
    """End a cell that cannot end by itself, with the mildest means that does.

    The sockets of the process group are shut down, so that whoever waits on them
    fails; ranks that still do not end are interrupted, then killed.

    interrupt: interrupt ranks that compute at once, as ■ does.
    """

    def busy() -> list[int]:
        return [rank for rank in watched.busy() if not ranks.is_dead(rank)]

    for rank in having(watched.states, "stopped"):
        ranks.kill(rank)
    ranks.ask("free", busy(), GRACE)
    if interrupt:
        ranks.interrupt([r for r in having(watched.states, "runs") if r in busy()])
    if wait_until(lambda: not busy(), GRACE):
        return
    ranks.ask("free", busy(), GRACE)
    ranks.interrupt(busy())
    if wait_until(lambda: not busy(), GRACE):
        return
    for rank in busy():
        ranks.kill(rank)
    wait_until(lambda: not busy(), GRACE)


def repair(ranks: Ranks) -> str:
    """Replace dead ranks, and give all a new process group; say what was done."""
    dead = ranks.dead()
    for rank in dead:
        ranks.replace(rank)
    if dead:
        setup.become_ranks(ranks, only=dead)
    kept = "the others' variables are kept" if dead else "variables are kept"
    if len(dead) == len(ranks):
        kept = ""
    return "; ".join([*replaced(dead), renew(ranks, kept)])


def shrink(ranks: Ranks) -> str:
    """Make the ranks that live a smaller world; say what was done."""
    dead = ranks.dead()
    if len(dead) == len(ranks):
        raise RankError("no rank is left to go on: call ranks.repair() or launch()")
    ranks.drop(dead)
    setup.become_ranks(ranks)
    go = "ranks go" if len(ranks) > 1 else "rank goes"
    size = f"{len(ranks)} {go} on, numbered anew"
    return "; ".join([size, renew(ranks)])


def renew(ranks: Ranks, kept: str = "variables are kept") -> str:
    """Destroy what is left of the process group, and make a new one."""
    counts = ranks.run_all(engine.call, "process_group:destroy")
    gone = "; sub-groups are gone" if max(counts) > 1 else ""
    if ranks.backend is None:
        if not max(counts):
            return "there is no process group"
        return f"the process group is destroyed: initialise it again{gone}"
    setup.init_process_group(ranks)
    return f"a new process group is up{', ' if kept else ''}{kept}{gone}"


def replaced(dead: list[int]) -> list[str]:
    """Say which ranks are new processes."""
    if not dead:
        return []
    many = len(dead) > 1
    return [
        f"{these_ranks(dead)} {'are new processes' if many else 'is a new process'}, "
        f"the variables there are lost"
    ]


def wait_until(reached: Callable[[], bool], limit: float) -> bool:
    """Wait until a condition holds; return False if it does not in `limit` seconds."""
    deadline = time.monotonic() + limit
    while not reached():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
