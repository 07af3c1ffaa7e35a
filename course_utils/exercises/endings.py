"""Why a call did not return: the hints for waits, loops and deaths."""

from __future__ import annotations

import re

from course_utils.exercises import source
from course_utils.exercises.answers import Answer, Attempt
from course_utils.exercises.wording import plural, start
from course_utils.stuck import RankState, likely_cause
from course_utils.text import these_ranks

TOO_LONG = re.compile(r"(\d+) vs (\d+)\. Received data size")
KINDS = {  # states of a cell's report
    "returned": "missed",
    "raised": "failed",
    "looped": "runs",
    "stuck": "runs",
    "died": "died",
}


def ended(attempt: Attempt) -> str | None:
    """The process is gone."""
    died = attempt.ranks("died")
    if not died:
        return None
    answer = attempt.answers[died[0]]
    sizes = TOO_LONG.search(answer.place)
    if sizes:
        return (
            f"{start(died[:1])} was sent {sizes[1]} bytes and receives into "
            f"{sizes[2]}, so torch ended its process: what is sent and what receives "
            "differ in dtype or shape."
        )
    if "SIGABRT" in answer.error and "terminate called" in answer.place:
        return f"torch ended the process of {these_ranks(died)}."
    return f"The function ended the process of {these_ranks(died)}."


def endless(attempt: Attempt) -> str | None:
    """A loop that does not end."""
    looped = attempt.ranks("looped", "stuck")
    return f"{start(looped)} never came to an end." if looped else None


def work_dropped(attempt: Attempt) -> str | None:
    """Messages that are gone, since nobody keeps the work that sends them."""
    if not attempt.ranks("waited", "raised"):
        return None
    return dropped(attempt)


def dropped(attempt: Attempt) -> str | None:
    """Nobody waits for the work that a call returns."""
    node = source.function(attempt.source, attempt.function)
    call = source.dropped(node) if node else ""
    if not call:
        return None
    return (
        f"Nobody waits for the work that {call} returns: keep it, and call its wait() "
        "before you use the tensors."
    )


def in_vain(attempt: Attempt) -> str | None:
    """Say what a cell's report says of ranks that wait."""
    waiting = attempt.ranks("waited")
    if not waiting or attempt.ranks("raised", "looped", "stuck"):
        return None
    states = {r: state(answer) for r, answer in enumerate(attempt.answers)}
    cause = likely_cause(states, attempt.source)
    cause = re.sub(r"\bleft (the cell )?before", "returned before", cause)
    return f"{cause[0].upper()}{cause[1:]}." if cause else None


def state(answer: Answer) -> RankState:
    """Return what a rank does as a cell's report has it."""
    if answer.state == "waited" and answer.waiting is not None:
        return answer.waiting
    return RankState(KINDS.get(answer.state, "waits"))


def left_alone(attempt: Attempt) -> str | None:
    """Some ranks wait for others that have ended."""
    waiting, gone = attempt.ranks("waited"), attempt.ranks("returned")
    failed = attempt.ranks("raised")
    if not waiting or not (gone or failed):
        return None
    calls = {state(attempt.answers[r]).call for r in waiting}
    call = calls.pop() if len(calls) == 1 else "a call"
    if failed:
        return (
            f"{start(failed)} failed, and so {these_ranks(waiting)} waited in {call} "
            "in vain."
        )
    again = any(c.name == call for r in gone for c in attempt.answers[r].calls)
    return (
        f"{start(waiting)} waited in {call}; {these_ranks(gone)} returned without "
        f"calling it{' as often' if again else ''}."
    )


def deadlock(attempt: Attempt) -> str | None:
    """Every rank waits, and no pattern fits."""
    waiting = attempt.ranks("waited")
    if len(waiting) < len(attempt.answers):
        return None
    calls = sorted({state(answer).call for answer in attempt.answers})
    if len(calls) > 1:
        return f"The ranks wait for one another: in {' and '.join(calls)}."
    verb = plural(waiting, "is", "are all")
    return f"{start(waiting)} {verb} in {calls[0]}, and it does not end."
