"""Why a call did not return: the hints for waits, loops, errors and deaths."""

from __future__ import annotations

from course_utils.exercises.answers import Attempt
from course_utils.text import these_ranks


def left_alone(attempt: Attempt) -> str | None:
    """Some ranks wait for others that have ended."""
    waiting, ended = attempt.ranks("waited"), attempt.ranks("returned")
    failed = attempt.ranks("raised")
    if not waiting or not (ended or failed):
        return None
    calls = {attempt.answers[r].error.partition("(")[0] for r in waiting}
    call = calls.pop() if len(calls) == 1 else "a call"
    if failed:
        return (
            f"{_start(failed)} failed, and so {these_ranks(waiting)} waited in {call} "
            "in vain."
        )
    again = any(c.name == call for r in ended for c in attempt.answers[r].calls)
    return (
        f"{_start(waiting)} waited in {call}; {these_ranks(ended)} returned without "
        f"calling it{' as often' if again else ''}."
    )


def deadlock(attempt: Attempt) -> str | None:
    """Every rank waits for another one."""
    if len(attempt.ranks("waited")) < len(attempt.answers):
        return None
    calls = {answer.error.partition("(")[0] for answer in attempt.answers}
    if calls <= {"recv", "irecv"}:
        return "Every rank waits to receive, so that none comes to send."
    if calls <= {"send", "isend"}:
        return (
            "Every rank waits until its message is taken, so that none comes to "
            "receive."
        )
    if len(calls) > 1:
        return "The ranks wait for one another, each in a different call."
    return f"All ranks are in {calls.pop()}, but it does not fit together."


def unequal(attempt: Attempt) -> str | None:
    """The guard found different collectives."""
    if any("the ranks disagree on" in a.error for a in attempt.answers):
        return (
            "The ranks do not agree on one collective: its operation, or the shape or "
            "dtype of what it moves."
        )
    return None


def one_name(attempt: Attempt) -> str | None:
    """The guard found `[t] * n`."""
    if any("names one buffer several times" in a.error for a in attempt.answers):
        return (
            "The list for the result holds the same buffer several times, so that "
            "all its items would show what is written last."
        )
    return None


def endless(attempt: Attempt) -> str | None:
    """A loop that does not end."""
    looped = attempt.ranks("looped", "stuck")
    return f"{_start(looped)} never came to an end." if looped else None


def ended(attempt: Attempt) -> str | None:
    """The process is gone."""
    died = attempt.ranks("died")
    return f"The function ended the process of {these_ranks(died)}." if died else None


def _start(ranks: list[int]) -> str:
    return these_ranks(ranks).capitalize()
