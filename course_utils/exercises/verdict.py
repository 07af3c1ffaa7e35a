"""What `check` says about an exercise, in text and as a picture."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course_utils.exercises import source
from course_utils.exercises.answers import Answer, Attempt, Case, is_list
from course_utils.exercises.hints import reason
from course_utils.exercises.wording import listed, words
from course_utils.pictures import Blocks, Snapshot
from course_utils.text import indent, merge, tag, these_ranks

if TYPE_CHECKING:
    from course_utils.exercises.exercise import Exercise
    from course_utils.pictures import Picture

WIDTH = 79  # characters in a line of a verdict
UNKNOWN = "No known cause fits: compare what is expected with yours."


@dataclass(frozen=True)
class Verdict:
    """The verdict on one exercise. It is true if the exercise is right.

    state: "correct", "not started", "missing", "wrong", "raised", "stuck" or "died".
    why: the likely reason, in one sentence; "" if none is known.
    """

    state: str
    text: str
    why: str = ""
    picture: Picture | None = None

    def __bool__(self) -> bool:
        return self.state == "correct"

    def __repr__(self) -> str:
        return f"{self.text}\n\n{self.picture.text}" if self.picture else self.text

    def _ipython_display_(self) -> None:
        """Show the text, and the picture below it.

        They are two outputs: of one that has both forms JupyterLab shows the picture.
        """
        if self.picture is None:
            raise NotImplementedError  # IPython takes the repr
        from IPython.display import display

        display({"text/plain": self.text}, raw=True)
        display(self.picture)


def correct(exercise: Exercise, passed: list[Case]) -> Verdict:
    """Say that all cases were right."""
    sizes = {case.world_size for case in passed}
    cases = f"{len(passed)} case{'s' if len(passed) > 1 else ''}"
    worlds = "worlds" if len(sizes) > 1 else "a world"
    ranks = "rank" if sizes == {1} else "ranks"
    return Verdict(
        "correct",
        f"{exercise.id} correct: {cases} on {worlds} of {listed(sizes)} {ranks}",
    )


def missing(exercise: Exercise, found: list[str], at_home: bool) -> Verdict | None:
    """Say where there is no function; None if it is everywhere.

    found: as in `attempt.survey`.
    at_home: whether the notebook's own process has a function of that name.
    """
    name, first = exercise.function, f"{exercise.id} cannot be checked:"
    without = [rank for rank, what in enumerate(found) if what == "missing"]
    if without:
        has = f"{these_ranks(without)} {'has' if len(without) == 1 else 'have'} no"
        if len(without) == len(found):
            has = "no rank has a"
        why = "The cell that defines it has not run there."
        if at_home:
            why = "It is defined in the notebook's own process: that cell lacks %%px."
        return Verdict("missing", f"{first} {has} function {name}\n  {why}", why)
    other = [rank for rank, what in enumerate(found) if what != "ready"]
    if other:
        why = f"{name} is no function on {these_ranks(other)}: {found[other[0]]}."
        return Verdict("missing", f"{first} {why}", why)
    return None


def is_stub(attempt: Attempt) -> bool:
    """Tell whether the function does nothing yet: None everywhere, and no call."""
    if attempt.passed or not attempt.ended:
        return False
    if any(a.yours is not None or a.calls for a in attempt.answers):
        return False
    node = source.function(attempt.source, attempt.function)
    return node is None or source.is_empty(node)


def not_started(exercise: Exercise, at_home: bool) -> Verdict:
    """Say that the stub is as it was.

    at_home: whether the notebook's own process has a function of that name.
    """
    text = f"{exercise.id} not started: {exercise.function} returns None"
    if at_home:
        why = (
            f"The notebook's own process has a function {exercise.function} as well: "
            "does that cell lack %%px?"
        )
        return Verdict("not started", "\n".join([text, *wrapped(why)]), why)
    return Verdict("not started", text)


def wrong(exercise: Exercise, attempt: Attempt, lost: list[int]) -> Verdict:
    """Say what went wrong in one case, where, and why.

    lost: the ranks that died or did not come free, and were replaced.
    """
    state = state_of(attempt)
    why = reason(exercise, attempt)
    second = ", called a second time" if attempt.again else ""
    lines = [f"{exercise.id} {state} on {attempt.case}{second}"]
    lines += indent("\n".join(details(exercise, attempt)))
    if why or state == "wrong":
        lines += wrapped(f"Why: {why}" if why else UNKNOWN)
    if lost:
        lines += wrapped(
            f"Replaced: {these_ranks(lost)} did not survive; a new process has the "
            "imports and functions of the other ranks, but no variables yet."
        )
    drawn = picture(attempt) if state == "wrong" else None
    return Verdict(state, "\n".join(lines), why, drawn)


def wrapped(text: str) -> list[str]:
    """Break a sentence into lines, set in."""
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")


def state_of(attempt: Attempt) -> str:
    """Return the worst that happened."""
    if attempt.ranks("died"):
        return "died"
    if attempt.ranks("looped", "stuck"):
        return "stuck"
    if attempt.ranks("raised"):
        return "raised"
    return "stuck" if attempt.ranks("waited") else "wrong"


def details(exercise: Exercise, attempt: Attempt) -> list[str]:
    """Say what every rank did, or where the first result differs."""
    if not attempt.ranks("raised", "waited", "looped", "stuck", "died"):
        return differing(exercise, attempt)
    did = merge({r: event(answer) for r, answer in enumerate(attempt.answers)})
    return [f"{tag(ranks)} {text}" for ranks, text in did]


def event(answer: Answer) -> str:
    """Say how the call ended on one rank."""
    place = f" {answer.place}" if answer.place else ""
    if answer.state == "waited":
        call = answer.waiting.name if answer.waiting else "a collective"
        return f"waited in {call}{place}"
    if answer.state == "died":
        last = indent(answer.place) if answer.place else []
        return "\n".join([f"died ({answer.error})", *last])
    return {
        "returned": "returned",
        "raised": answer.error,
        "looped": f"ran until it was interrupted{place}",
        "stuck": "does not come free",
    }[answer.state]


def differing(exercise: Exercise, attempt: Attempt) -> list[str]:
    """Show expected and yours at the first place where they differ."""
    found = attempt.difference()
    if found is None:
        return ["every result has the right value"]
    item = "" if found.item is None else f", item {found.item}"
    write = exercise.words or (lambda value, attempt: words(value))
    shown = [write(value, attempt) for value in (found.expected, found.yours)]
    if shown[0] == shown[1]:  # another dtype, or a place that is not shown
        shown = apart(found.expected, found.yours, attempt.answers[found.rank])
    return [
        f"first difference: rank {found.rank}{item}",
        f"expected  {shown[0]}",
        f"yours     {shown[1]}",
    ]


def apart(expected: Any, yours: Any, answer: Answer) -> list[str]:
    """Write two values that look alike so that one sees where they differ."""
    forms = [
        f"{words(v)} ({v.dtype} of shape {v.shape})"
        if isinstance(v, Snapshot)
        else words(v)
        for v in (expected, yours)
    ]
    if forms[0] != forms[1]:
        return forms
    if answer.differs is None:
        return [f"{type(v).__name__} {words(v)}" for v in (expected, yours)]
    index, *values = answer.differs
    return [f"{value!r} at {list(index)}" for value in values]


def picture(attempt: Attempt) -> Picture | None:
    """Draw shard, expected and yours of every rank, where they are tensors."""
    if attempt.difference() is None or not any(map(drawable, attempt.yours)):
        return None
    if not all(map(drawable, attempt.expected)):
        return None
    from course_utils.pictures import picture

    columns = {"expected": attempt.expected, "yours": attempt.yours}
    shards = [next(filter(drawable, given), None) for given in attempt.inputs]
    if None not in shards:
        columns = {"shard": shards, **columns}
    return picture(
        {name: [held(value) for value in column] for name, column in columns.items()}
    )


def drawable(value: Any) -> bool:
    """Tell whether a value is a tensor, or a list of tensors."""
    if is_list(value):
        return bool(value) and all(map(drawable, value))
    return isinstance(value, Snapshot)


def held(value: Any) -> Snapshot | Blocks | None:
    """Turn a value into what a picture can show; None if it cannot."""
    if is_list(value) and drawable(value):
        return Blocks(tuple(map(held, value)), len(value))
    return value if isinstance(value, Snapshot) else None
