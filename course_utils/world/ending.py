"""End what cannot end by itself: report it, free its ranks, bring the world back."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from course_utils.stuck import Watched, report
from course_utils.text import RankError, failures
from course_utils.world.repair import bring_back, settle, undisturbed
from course_utils.world.stop import noticed

if TYPE_CHECKING:
    from course_utils.world.world import World


def watch(
    world: World,
    result,
    targets: list[int],
    source: str = "",
    live=None,
    stopped: bool = False,
) -> None:
    """Wait for a cell or call; raise `RankError` if it cannot end by itself.

    The world is usable afterwards: stuck ranks are freed and the process group is
    made anew. Dead ranks are left to `Ranks.repair` and `Ranks.shrink`.

    result: ipyparallel's AsyncResult of it; source: of the cell.
    live: called with the states of the ranks from time to time.
    stopped: whether it is to end at once, as by an interrupt.
    """
    counted = world.backend in ("gloo", "mpi")
    watched = Watched(world, result, targets, world.patience, counted)
    try:
        with noticed() as asked:
            ended = not stopped and watched.wait(live, asked)
        by_hand = stopped
    except KeyboardInterrupt:
        ended, by_hand = False, True
    if ended:
        if asked():  # just then: it ends what comes after, such as a loop of calls
            raise KeyboardInterrupt
        return
    with undisturbed():
        raise RankError(end(world, watched, source, by_hand))


def end(world: World, watched: Watched, source: str, by_hand: bool) -> str:
    """End a cell that does not end by itself; return the report.

    by_hand: it was interrupted.
    """
    dead = [] if by_hand else world.dead()
    if by_hand:
        watched.look()
        text = report.interrupted(watched.states)
    elif dead:
        text = report.died(world, dead)
    else:
        errors = watched.errors()
        hosts = world.hosts if len(set(world.hosts)) > 1 else None
        text = report.stuck(watched.states, errors, source, world.patience, hosts)
    settle(world, watched, interrupt=by_hand)
    if dead:
        return f"{text}\n  {report.how_to_go_on(world, dead)}"
    return f"{text}\n  repaired: {bring_back(world)}"


def fail(world: World, errors: dict[int, BaseException]) -> NoReturn:
    """Raise `RankError` for what ranks raised; mend what that has broken."""
    text = failures(errors)
    if any(report.is_broken(str(error)) for error in errors.values()):
        with undisturbed():
            text += f"\n  repaired: {bring_back(world)}"
    raise RankError(text)
