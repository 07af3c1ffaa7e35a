"""Why an answer is wrong, in a fixed order of evidence.

A hint looks at an `Attempt` and returns one sentence, or None. It says what is wrong,
not what to type. First comes what can be seen without knowing the exercise: None,
work that nobody waited for, type, dtype, a changed input. Values and their places
come last, where each sentence has to fit all that is there. Where nothing fits,
nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from course_utils.exercises import endings, forms, places, refusals, worlds
from course_utils.exercises.answers import Attempt

if TYPE_CHECKING:
    from course_utils.exercises.exercise import Exercise, Hint


def rules(exercise: Exercise) -> tuple[Hint, ...]:
    """Return what makes a right result wrong."""
    return (*exercise.rules, forms.pending)


def reason(exercise: Exercise, attempt: Attempt) -> str:
    """Return the first sentence that fits; "" if none does."""
    for hint in asked(exercise, attempt):
        sentence = hint(attempt)
        if sentence:
            return sentence
    return ""


def asked(exercise: Exercise, attempt: Attempt) -> Iterator[Hint]:
    """Yield the hints in the order of evidence."""
    if attempt.right:
        yield from rules(exercise)
    elif attempt.ended:
        yield from returned(exercise)
    else:
        yield from stopped(exercise)


def stopped(exercise: Exercise) -> tuple[Hint, ...]:
    """List what may have kept a call from its end."""
    return (
        endings.ended,
        refusals.missing_name,
        forms.again,
        worlds.counted_elsewhere,
        *exercise.stops,
        endings.work_dropped,
        refusals.told_by_guard,
        refusals.one_buffer_misfit,
        refusals.none_kept,
        refusals.none_elsewhere,
        endings.endless,
        endings.in_vain,
        worlds.reads_tensor,
        endings.left_alone,
        endings.deadlock,
        worlds.reads_number,
        worlds.fixed_world,
        worlds.fixed_shard,
    )


def returned(exercise: Exercise) -> tuple[Hint, ...]:
    """List what may be wrong with a result."""
    return (
        forms.again,
        worlds.counted_elsewhere,
        forms.other_dtype,
        *exercise.rules,
        forms.pending,
        *exercise.forms,
        places.only_own,
        forms.one_buffer,
        forms.nothing,
        forms.other_type,
        forms.changed,
        forms.other_length,
        forms.other_shape,
        worlds.reads_tensor,
        *exercise.hints,
        places.own_first,
        forms.only_root,
        places.as_given,
        places.one_shard,
        places.missing_block,
        places.multiple,
        places.other_order,
        forms.only_some,
        places.untouched,
        places.reordered,
        forms.shared,
        worlds.reads_number,
        worlds.fixed_world,
        worlds.fixed_shard,
    )
