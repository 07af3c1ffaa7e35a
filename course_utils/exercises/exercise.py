"""What an exercise is: a function to write, cases, an oracle, and hints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from course_utils.exercises.answers import Attempt, Case

Inputs = list[tuple]  # the arguments of every rank
Hint = Callable[[Attempt], str | None]  # one sentence, or None: something else


@dataclass(frozen=True)
class Exercise:
    """One exercise; `check` runs it.

    id: as in "3.1".
    function: the name that the learner gives to the function.
    oracle: from a case and the inputs of all ranks, what every rank must return,
        worked out in one process.
    inputs: from a case and the path of a file that does not exist yet, the
        arguments of every rank. Each rank makes those of all, from a seed.
    worlds: the world sizes, in the order of the cases; larger ones than the world
        at hand are left out.
    shards: what a `Case` has beside the world size, for each case on a world.
    rules: what is asked beyond the result; the first sentence that one returns
        makes a right result wrong.
    stops: why a call did not come to its end on every rank.
    forms: what is wrong with type, length or shape, before `hints.returned` says it.
    hints: which wrong values are there, where type, dtype and shape are right. The
        first sentence of all these counts.
    look: on a rank, from the result and the expected one, more facts for the hints.
    group: whether a case starts with a default process group.
    may_share: whether the result may share memory with the input.
    measured: whether the answer tells the peak of the memory that a call needs.
    tolerance: of floating point numbers in the result, as a share.
    twice: whether the function is called once more with the same input.
    unordered: whether sets are to have another order on every rank.
    words: writes a result in one line, the same on every run; `wording.words` if
        there is none.
    """

    id: str
    function: str
    oracle: Callable[[Case, Inputs], Sequence[Any]]
    inputs: Callable[[Case, str], Inputs]
    worlds: tuple[int, ...] = (4, 3, 2)
    shards: tuple[tuple, ...] = ((None, "int64"),)
    rules: tuple[Hint, ...] = ()
    stops: tuple[Hint, ...] = ()
    forms: tuple[Hint, ...] = ()
    hints: tuple[Hint, ...] = ()
    group: bool = True
    may_share: bool = False
    measured: bool = False
    tolerance: float = 0.0
    look: Callable[[Any, Any], dict[str, Any]] | None = None
    twice: bool = True
    unordered: bool = False
    words: Callable[[Any, Attempt], str] | None = None

    def cases(self, world_size: int) -> list[Case]:
        """List the cases on the worlds that fit into `world_size` ranks."""
        fitting = [size for size in self.worlds if size <= world_size]
        return [Case(size, *shard) for size in fitting for shard in self.shards]
