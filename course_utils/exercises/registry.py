"""The exercises that `check` knows."""

from __future__ import annotations

from course_utils.exercises.lessons import LESSONS


def known() -> list[str]:
    """List the ids of all exercises, in the order of the lessons."""
    return [entry.id for lesson in LESSONS for entry in lesson.EXERCISES]
