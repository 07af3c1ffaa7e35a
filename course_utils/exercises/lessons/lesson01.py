"""The exercises of lesson 1, meet the ranks."""

from __future__ import annotations

import os
from typing import Any

from course_utils.exercises.answers import Attempt, Case, is_list
from course_utils.exercises.exercise import Exercise, Inputs
from course_utils.exercises.lessons.inputs import no_arguments
from course_utils.exercises.wording import words

PIDS = 1000  # numbers below are no pid that would differ from run to run


def own_process(case: Case, inputs: Inputs) -> list:
    """Pair every rank with the pid of this process: right for this rank."""
    return [(rank, os.getpid()) for rank in range(case.world_size)]


def without_pids(value: Any, attempt: Attempt) -> str:
    """Write a result with names instead of pids, which differ on every run."""
    names = {pid: f"<pid of rank {rank}>" for rank, pid in attempt.expected}
    if is_list(value):
        inner = ", ".join(without_pids(item, attempt) for item in value)
        return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
    if isinstance(value, str) and value.isdecimal():
        return f"'{without_pids(int(value), attempt)}'"
    if type(value) is int and (value in names or value >= PIDS):
        return names.get(value, "<no rank's pid>")
    return words(value)


def introduction(attempt: Attempt) -> str | None:
    """Look at rank and pid one by one."""
    pairs = attempt.yours
    if not all(is_list(pair) and len(pair) == 2 for pair in pairs):
        return None
    if len(pairs) > 1 and all(pair == pairs[0] for pair in pairs):
        return "Every rank says the same, so it says nothing that only it knows."
    for rank, (said, pid) in enumerate(pairs):
        own = attempt.expected[rank][1]
        if said == own and pid == rank:
            return "Rank and pid are in the other order."
        if isinstance(pid, str) and pid == str(own):
            return "The pid is text, not a number."
        if isinstance(said, str) and said == str(rank):
            return "The rank is text, not a number."
        if pid != own and said == rank and pid in (len(pairs), str(len(pairs))):
            return "The second number is the number of ranks, not a process id."
        if pid == rank == said:
            return "The rank stands there twice; the second number is to be the pid."
        if pid != own and said == rank:
            return (
                f"The rank is right, but the pid is not that of rank {rank}'s process."
            )
        if pid == own and said != rank:
            return f"The pid is right, but rank {rank} calls itself {words(said)}."
    return None


EXERCISES = (
    Exercise(
        "1.1",
        "introduce",
        inputs=no_arguments,
        oracle=own_process,
        worlds=(4, 2),
        hints=(introduction,),
        words=without_pids,
    ),
)
