"""Run a learner's function on worlds of several sizes, with a deadline."""

from __future__ import annotations

import time
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from course_utils.exercises.answers import Answer, Attempt, Case
from course_utils.exercises.hints import rules
from course_utils.stuck import report
from course_utils.text import RankError, error_text, these_ranks
from course_utils.world import bring_back, call

if TYPE_CHECKING:
    from course_utils.exercises.exercise import Exercise
    from course_utils.world import Ranks

ATTEMPT, CASE_WORLD = "exercises.attempt", "exercises.case_world"  # on the ranks
VARIABLES = "world.variables"  # there, too
MARGIN = 1.0  # seconds beyond the time-out of the group, for the function itself
FREE = 3.0  # seconds in which a rank has to come free, after each means
SHORT = 10.0  # seconds for what a rank does at once
ANYWAY = "the set-up cell must be run again"


def survey(ranks: Ranks, name: str) -> list[str]:
    """Tell of every rank what `name` is there; see `attempt.survey`.

    Raises RankError if a rank has died or is still busy.
    """
    ranks.check_alive()
    replies = ask(ranks, range(len(ranks)), SHORT, f"{ATTEMPT}:survey", name)
    busy = [rank for rank, reply in replies.items() if reply is None]
    if busy:
        raise RankError(f"{these_ranks(busy)} of this world still run: {ANYWAY}")
    return [found(reply) for reply in replies.values()]


def try_all(
    ranks: Ranks, exercise: Exercise, timeout: float
) -> tuple[list[Case], Attempt | None, list[int]]:
    """Try all cases until one goes wrong.

    timeout: seconds for which a rank waits for others in a collective.
    Returns the cases that were right, the attempt that went wrong, if one did, and
    the ranks that are lost.
    """
    passed: list[Case] = []
    cases = exercise.cases(len(ranks))
    for _, on_one_world in groupby(cases, key=lambda case: case.world_size):
        wrong, lost = None, []
        try:
            wrong = try_world(ranks, exercise, timeout, list(on_one_world), passed)
        except BaseException:
            interrupt(ranks, range(len(ranks)))
            raise
        finally:
            lost = restore(ranks)
        if wrong or lost:
            return passed, wrong, lost
    return passed, None, []


def try_world(
    ranks: Ranks,
    exercise: Exercise,
    timeout: float,
    cases: list[Case],
    passed: list[Case],
) -> Attempt | None:
    """Try the cases on one world; return the first attempt that goes wrong."""
    size = cases[0].world_size
    backend = None
    if exercise.group:
        backend = "gloo" if ranks.backend in (None, "mpi") else ranks.backend
    store = meeting_place(ranks, size) if backend else ""
    joined = ask(
        ranks,
        range(size),
        SHORT,
        "exercises.case_world:enter",
        size,
        backend,
        timeout,
        store,
    )
    for reply in joined.values():
        found(reply)
    for case in cases:
        twice = exercise.twice and case is cases[0]
        for again in (False, True)[: 1 + twice]:
            attempt = run(ranks, exercise, case, timeout, tuple(passed), again)
            if not attempt.right or any(rule(attempt) for rule in rules(exercise)):
                return attempt
        passed.append(case)
    return None


def run(
    ranks: Ranks,
    exercise: Exercise,
    case: Case,
    timeout: float,
    passed: tuple[Case, ...],
    again: bool,
) -> Attempt:
    """Run one case; end it where it does not end by itself.

    again: call the function twice with the same inputs; the second call counts.
    """
    everyone = range(case.world_size)
    path = str(Path(ranks.cluster.folder) / f"exercise-{uuid4().hex}")
    sent = send(ranks, everyone, f"{ATTEMPT}:attempt", exercise.id, case, path, again)
    if not wait(ranks, sent, timeout + MARGIN):
        interrupt(ranks, busy(sent))  # ends loops
        if not wait(ranks, sent, FREE):
            idle = [rank for rank in everyone if rank not in busy(sent)]
            ask(ranks, idle, FREE, f"{CASE_WORLD}:leave")  # ends waits for these ranks
            interrupt(ranks, busy(sent))
            wait(ranks, sent, FREE)
    answers = [answer_of(ranks, rank, result) for rank, result in sent.items()]
    return Attempt(case, tuple(answers), passed, exercise.function, again)


def restore(ranks: Ranks) -> list[int]:
    """Bring back the learner's own world; return the ranks that were lost.

    A rank that died or does not come free is replaced by a new process.
    """
    living = [rank for rank in range(len(ranks)) if not ranks.is_dead(rank)]
    left = ask(ranks, living, FREE, f"{CASE_WORLD}:leave")
    failed = [rank for rank, reply in left.items() if reply is not None and reply[1]]
    stuck = [rank for rank, reply in left.items() if reply is None]
    lost = sorted({*ranks.dead(), *stuck, *failed})
    for rank in lost:
        if not ranks.is_dead(rank):
            ranks.kill(rank)
    if lost:
        bring_back(ranks)
        hand_over(ranks, lost)
    return lost


def hand_over(ranks: Ranks, lost: list[int]) -> None:
    """Give new processes the imports and functions that the other ranks have."""
    kept = [rank for rank in range(len(ranks)) if rank not in lost]
    if not kept:
        return
    told = ask(ranks, kept[:1], SHORT, f"{VARIABLES}:definitions")[kept[0]]
    if told is not None and told[1] is None:
        ask(ranks, lost, SHORT, f"{VARIABLES}:define", told[0])


def interrupt(ranks: Ranks, chosen) -> None:
    """Interrupt those of the ranks that live, as Ctrl-C does."""
    ranks.interrupt([rank for rank in chosen if not ranks.is_dead(rank)])


def answer_of(ranks: Ranks, rank: int, result) -> Answer:
    """Return the answer of a rank, also where it could not give one."""
    if not result.ready():
        return Answer("stuck")
    reply = ranks.results(result, [rank])[rank]
    if isinstance(reply, Answer):
        return reply
    name = getattr(reply, "ename", "")
    if ranks.is_dead(rank) or name == "EngineError":
        last = report.own_words(ranks.last_words(rank))
        return Answer("died", error=ranks.ending(rank), place=last)
    if name == "KeyboardInterrupt":
        return Answer("looped")
    return Answer("raised", error=error_text(reply))


def meeting_place(ranks: Ranks, size: int) -> str | tuple[str, int]:
    """Return where the ranks of one case meet; see `process_group.init`."""
    if ranks.cluster.local:
        return str(Path(ranks.cluster.folder) / f"store-{uuid4().hex}")
    where = ("process_group:open_store", ranks.addresses[0], size)
    return found(ask(ranks, [0], SHORT, *where)[0])


def send(ranks: Ranks, chosen, function: str, *args: object) -> dict:
    """Begin a call of the course's function on ranks; return the results to come."""
    given = (function, *args)
    return {rank: ranks.submit(call, {rank: given}) for rank in chosen}


def wait(ranks: Ranks, sent: dict, limit: float) -> bool:
    """Wait for results; return False if one is missing after `limit` seconds."""
    deadline = time.monotonic() + limit
    for result in sent.values():
        result.wait(max(0.0, deadline - time.monotonic()))
    return not busy(sent)


def busy(sent: dict) -> list[int]:
    """Return the ranks whose result has not come."""
    return [rank for rank, result in sent.items() if not result.ready()]


def ask(ranks: Ranks, chosen, limit: float, function: str, *args: object) -> dict:
    """Call the course's function on ranks; return value and error by rank.

    Instead of the pair, a rank that has not answered has None.
    """
    sent = send(ranks, chosen, function, *args)
    wait(ranks, sent, limit)
    replies = {}
    for rank, result in sent.items():
        reply = ranks.results(result, [rank])[rank] if result.ready() else None
        failed = isinstance(reply, BaseException)
        replies[rank] = (
            None if not result.ready() else (None, reply) if failed else (reply, None)
        )
    return replies


def found(reply: tuple | None) -> object:
    """Return the value in a reply of `ask`; raise RankError if there is none."""
    if reply is None:
        raise RankError(f"a rank does not answer: {ANYWAY}")
    value, error = reply
    if error is not None:
        raise RankError(error_text(error))
    return value
