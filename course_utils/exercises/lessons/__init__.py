"""The exercises of the lessons: one entry for each, in a module a lesson.

An entry names the function to write, its inputs, an oracle, and hints of its own;
`exercises.exercise` says what each field is, `exercises.hints` has the hints
that all share. torch is imported inside the functions that run on a rank, so that
the client can read the entries without it.
"""

from __future__ import annotations

from course_utils.exercises.exercise import Exercise
from course_utils.exercises.lessons import (
    lesson01,
    lesson02,
    lesson03,
    lesson04,
    lesson05,
    lesson06,
    lesson07,
    lesson08,
    lesson09,
    lesson10,
    lesson11,
    lesson12,
    lesson13,
)

LESSONS = (
    lesson01,
    lesson02,
    lesson03,
    lesson04,
    lesson05,
    lesson06,
    lesson07,
    lesson08,
    lesson09,
    lesson10,
    lesson11,
    lesson12,
    lesson13,
)

own: dict[str, Exercise] = {}  # those that `registry.register` has added, by id


def find(exercise_id: str) -> Exercise:
    """Return an exercise; raise ValueError if there is none of that id."""
    entries = [entry for lesson in LESSONS for entry in lesson.EXERCISES]
    entries += own.values()
    for entry in entries:
        if entry.id == exercise_id:
            return entry
    known = ", ".join(entry.id for entry in entries)
    raise ValueError(f"there is no exercise {exercise_id!r}; the exercises are {known}")
