"""What the ranks answered in one case of an exercise, and where it differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from course_utils.replay import Call
from course_utils.stuck import RankState


class Case(NamedTuple):
    """One set of inputs: for how many ranks, and what their shards look like."""

    world_size: int
    shape: tuple[int, ...] | None = None  # None: the function takes no tensor
    dtype: str = "int64"
    dim: int | None = None  # None: the function takes no dimension
    sizes: tuple[int, ...] = ()  # rows, or tensors, of every rank; (): all the same
    count: int | None = None  # samples of a data set that the ranks share
    turned: bool = False  # shards are transposed views: not contiguous
    per_host: int | None = None  # ranks on each host; None: hosts do not matter

    def __str__(self) -> str:
        ranks = f"{self.world_size} rank{'s' if self.world_size > 1 else ''}"
        return ", ".join(filter(None, [f"a world of {ranks}", self.given]))

    @property
    def given(self) -> str:
        """What the ranks are given, as in "shards (2, 3) int64, dim 1"."""
        if self.count is not None:
            return f"a data set of {self.count} sample{'s'[: self.count != 1]}"
        dim = "" if self.dim is None else f", dim {self.dim}"
        counts = ", ".join(map(str, self.sizes[: self.world_size]))
        if self.shape is None:
            return f"lists of {counts} tensors" if counts else ""
        if counts:
            rows = f" of shape {self.shape}" if self.shape else ""
            return f"shards of {counts} rows{rows}, {self.dtype}{dim}"
        turned = ", transposed" if self.turned else ""
        if self.per_host is not None:
            turned += f", {self.per_host} rank{'s'[: self.per_host != 1]} a host"
        return f"shards {self.shape} {self.dtype}{turned}{dim}"


class Other(NamedTuple):
    """Something that is neither tensor, list, tuple, text nor number."""

    kind: str
    text: str


class Form(NamedTuple):
    """What a tensor that was passed to a collective looks like."""

    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.shape} {self.dtype}"


class Outside(NamedTuple):
    """A variable of the notebook that a function reads.

    kind: "number", "tensor" or "list"; value: of a whole number.
    reader: the function of the notebook that reads it.
    """

    name: str
    kind: str
    value: int | None
    reader: str


@dataclass(frozen=True)
class Answer:
    """What one rank did in one case.

    state: "returned", "raised", "waited" (for other ranks, until its time-out),
        "looped" (until it was interrupted), "stuck" (still is) or "died".
    inputs, expected, yours: tensors as `Snapshot`; lists, tuples, numbers and text
        as they are; anything else as `Other`.
    aliases: pairs of items of the result that share memory.
    shares: the result shares memory with the input.
    changed: what is changed of the input: "values", "length" (of a list), "grad" or
        "requires_grad"; "" for nothing.
    calls: the calls of torch.distributed that the function made.
    tried: the guarded ones, also those that did not run, with tensors as `Form`.
    pending: the calls whose work nobody has waited for.
    outside: what the function reads from the notebook.
    source: of the cell that defines the function.
    after: how the default process group looks after the call.
    peak: bytes that the call added at its worst moment, where that is measured.
    seen: what `Exercise.look` has found in the result.
    error, place: what was raised or waited for, and the line where.
    waiting: what the rank waited in.
    differs: the first place of a tensor where the values differ, as index, expected
        and yours, also where an answer does not carry all values.
    """

    state: str
    right: bool = False
    inputs: tuple = ()
    expected: Any = None
    yours: Any = None
    aliases: tuple[tuple[int, int], ...] = ()
    shares: bool = False
    changed: str = ""
    calls: tuple[Call, ...] = ()
    tried: tuple[Call, ...] = ()
    pending: tuple[str, ...] = ()
    outside: tuple[Outside, ...] = ()
    source: str = ""
    after: dict[str, Any] = field(default_factory=dict)
    peak: int = 0
    seen: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    place: str = ""
    waiting: RankState | None = None
    differs: tuple[tuple[int, ...], Any, Any] | None = None


class Difference(NamedTuple):
    """The first place where a result is not what was expected."""

    rank: int
    item: int | None  # of a list; None: the whole result
    expected: Any
    yours: Any


@dataclass(frozen=True)
class Attempt:
    """The answers of all ranks in one case.

    passed: the cases before this one; they were right.
    function: the name of the learner's function.
    again: whether the function was called for the second time, after a right result.
    """

    case: Case
    answers: tuple[Answer, ...]
    passed: tuple[Case, ...] = ()
    function: str = ""
    again: bool = False

    @property
    def right(self) -> bool:
        """Tell whether every rank gave the right answer."""
        return all(answer.right for answer in self.answers)

    @cached_property
    def inputs(self) -> list[tuple]:
        """Give the arguments of every rank."""
        return [answer.inputs for answer in self.answers]

    @cached_property
    def expected(self) -> list:
        """Give what every rank was to return."""
        return [answer.expected for answer in self.answers]

    @cached_property
    def yours(self) -> list:
        """Give what every rank returned."""
        return [answer.yours for answer in self.answers]

    def ranks(self, *states: str) -> list[int]:
        """Return the ranks that are in one of the states."""
        return [r for r, answer in enumerate(self.answers) if answer.state in states]

    def wrong(self) -> list[int]:
        """Return the ranks that returned something else than expected."""
        return [r for r in self.ranks("returned") if not self.answers[r].right]

    @property
    def ended(self) -> bool:
        """Tell whether the function returned on every rank."""
        return len(self.ranks("returned")) == len(self.answers)

    @cached_property
    def source(self) -> str:
        """Give the cell that defines the function, as far as it is known."""
        return next((a.source for a in self.answers if a.source), "")

    def calls(self, name: str) -> Iterator[tuple[int, Call]]:
        """Yield every call of that name, with its rank."""
        for rank, answer in enumerate(self.answers):
            yield from ((rank, call) for call in answer.calls if call.name == name)

    def difference(self) -> Difference | None:
        """Find the first rank, and the first item of its list, that differ."""
        for rank in range(len(self.answers)):
            expected, yours = self.expected[rank], self.yours[rank]
            answer = self.answers[rank]
            if answer.state != "returned" or answer.right or alike(expected, yours):
                continue
            if is_list(expected) and is_list(yours) and len(expected) == len(yours):
                pairs = enumerate(zip(expected, yours, strict=True))
                item, (want, got) = next(p for p in pairs if not alike(*p[1]))
                return Difference(rank, item, want, got)
            return Difference(rank, None, expected, yours)
        return None


def is_list(value: Any) -> bool:
    """Tell whether a value is a list or a plain tuple."""
    return type(value) in (list, tuple)


def alike(one: Any, other: Any) -> bool:
    """Tell whether two values are equal, True apart from 1, and list like tuple."""
    if is_list(one) and is_list(other):
        return len(one) == len(other) and all(map(alike, one, other))
    return type(one) is type(other) and one == other
