"""Check an exercise: run the learner's function and say what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course_utils.exercises.verdict import Verdict
    from course_utils.world import Ranks


def check(exercise_id: str, ranks: Ranks, *, timeout: float = 5) -> Verdict:
    """Run your function for an exercise on fresh inputs, and judge the results.

    The function is called on worlds of several sizes, made of the first ranks; your
    own world is back afterwards. What it prints is not shown.

    exercise_id: as in "3.1".
    ranks: what `launch` returned.
    timeout: seconds for which a rank waits for others before the attempt ends.
    Returns a verdict that says what is wrong; a wrong function raises nothing.
    Raises ValueError for an exercise that does not exist, or for which there are
    too few ranks, TypeError for something else than ranks, and RankError if these
    have been stopped or have died.
    """
    from course_utils.exercises import telling, trial, verdict
    from course_utils.exercises.lessons import find
    from course_utils.world import Ranks, stoppable

    exercise = find(exercise_id)
    if not isinstance(ranks, Ranks):
        raise TypeError(
            f'ranks: expected what launch() returned, as in check("{exercise_id}", '
            f"ranks), got {type(ranks).__name__}"
        )
    if not exercise.cases(len(ranks)):
        raise ValueError(
            f"exercise {exercise_id} needs {min(exercise.worlds)} ranks or more, and "
            f"here is {len(ranks)}: call launch({max(exercise.worlds)})"
        )
    found = trial.survey(ranks, exercise.function)
    absent = verdict.missing(exercise, found, at_home(exercise.function))
    if absent is not None:
        return absent
    telling.tell(ranks, exercise)
    with stoppable(f"check({exercise_id!r})", "your own world is back"):
        passed, attempt, lost = trial.try_all(ranks, exercise, timeout)
    if attempt is None:
        return verdict.correct(exercise, passed)
    if verdict.is_stub(attempt):
        return verdict.not_started(exercise, at_home(exercise.function))
    return verdict.wrong(exercise, attempt, lost)


def at_home(name: str) -> bool:
    """Tell whether the notebook's own process has a function of that name."""
    from IPython import get_ipython

    shell = get_ipython()
    return shell is not None and callable(shell.user_ns.get(name))
