"""Make an exercise that others added known to the ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_utils.exercises import trial
from course_utils.exercises.lessons import own

if TYPE_CHECKING:
    from course_utils.exercises.exercise import Exercise
    from course_utils.world import Ranks


def tell(ranks: Ranks, exercise: Exercise) -> None:
    """Send an exercise to the ranks, by value, if it is none of the lessons'.

    Raises ValueError, saying what does not fit, if its cases cannot be worked out.
    """
    if exercise.id not in own:
        return
    everyone = range(len(ranks))
    rehearse = ("exercises.registry:rehearse", exercise, len(ranks))
    replies = trial.ask(ranks, everyone, trial.SHORT, *rehearse)
    if wrong := next(filter(None, map(trial.found, replies.values())), ""):
        raise ValueError(f"exercise {exercise.id} cannot be used on {wrong}")
