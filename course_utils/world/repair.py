"""Bring a world back that is stuck or has lost a rank."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from course_utils.stuck import ask, having
from course_utils.text import RankError, these_ranks
from course_utils.world import setup
from course_utils.world.stop import heedless

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from course_utils.stuck import Watched
    from course_utils.world.world import World

GRACE = 1.0  # seconds between one means and the next, stronger one
ARRIVAL = 0.5  # seconds in which a message that is under way may arrive


@contextmanager
def undisturbed() -> Iterator[None]:
    """Take no interrupt meanwhile: half a repair would leave no world."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, heedless)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def settle(world: World, watched: Watched, interrupt: bool = False) -> None:
    """End a cell that cannot end by itself, with the mildest means that does.

    The sockets of the process group are shut down, so that whoever waits on them
    fails; ranks that still do not end are interrupted, then killed.

    interrupt: interrupt all ranks at once, as ■ does. What they are in the midst of
        sending each other may arrive: gloo frees nobody from half a message.
    """

    def busy() -> list[int]:
        return [rank for rank in watched.busy() if not world.is_dead(rank)]

    def free(ranks: list[int]) -> None:
        ask(world, "free", ranks, GRACE, world.freed)

    world.freed += 1
    for rank in having(watched.states, "stopped"):
        world.kill(rank)
    to_free = busy()
    if interrupt:
        world.interrupt(to_free)
        wait_until(lambda: not busy(), ARRIVAL)  # what they began may still go on
    free([r for r in to_free if not world.is_dead(r)])
    if wait_until(lambda: not busy(), GRACE):
        return
    free(busy())
    world.interrupt(busy())
    if wait_until(lambda: not busy(), GRACE):
        return
    for rank in busy():
        world.kill(rank)
    wait_until(lambda: not busy(), GRACE)


def bring_back(world: World) -> str:
    """Replace dead ranks, and give all a new process group; say what was done."""
    dead = world.dead()
    if dead and world.backend == "mpi":  # whose world takes in nobody later
        dead = end_all(world)
    world.replace(dead)
    if dead:
        setup.become_ranks(world, only=dead if len(dead) < len(world) else None)
    kept = "the others' variables are kept" if dead else "variables are kept"
    if len(dead) == len(world):
        kept = ""
    return "; ".join([*replaced(dead), renew(world, kept)])


def end_all(world: World) -> list[int]:
    """End the ranks that live; return all ranks."""
    for rank in range(len(world)):
        if not world.is_dead(rank):
            world.kill(rank)
    return list(range(len(world)))


def go_on_without_dead(world: World) -> str:
    """Make the ranks that live a smaller world; say what was done."""
    dead = world.dead()
    if len(dead) == len(world):
        raise RankError("no rank is left to go on: call ranks.repair() or launch()")
    world.drop(dead)
    setup.become_ranks(world)
    go = "ranks go" if len(world) > 1 else "rank goes"
    size = f"{len(world)} {go} on, numbered anew"
    return "; ".join([size, renew(world)])


def renew(world: World, kept: str = "variables are kept") -> str:
    """Destroy what is left of the process group, and make a new one."""
    counts = world.call_all("process_group:destroy", world.freed)
    gone = "; sub-groups are gone" if max(counts) > 1 else ""
    if world.backend is None:
        if not max(counts):
            return "there is no process group"
        return f"the process group is destroyed: initialise it again{gone}"
    setup.init_process_group(world)
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
