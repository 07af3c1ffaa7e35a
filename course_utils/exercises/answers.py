"""What the ranks answered in one case of an exercise, and where it differs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from course_utils.pictures import Snapshot
from course_utils.replay import Call

TEXT_LIMIT = 100  # characters of a value that an answer shows


class Case(NamedTuple):
    """One set of inputs: for how many ranks, and what their shards look like."""

    world_size: int
    shape: tuple[int, ...] | None = None  # None: the function takes no tensor
    dtype: str = "int64"
    dim: int | None = None  # None: the function takes no dimension
    sizes: tuple[int, ...] = ()  # rows, or tensors, of every rank; (): all the same
    count: int | None = None  # samples of a data set that the ranks share

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
        return f"shards {self.shape} {self.dtype}{dim}"


class Other(NamedTuple):
    """Something that is neither tensor, list, tuple, text nor number."""

    kind: str
    text: str


@dataclass(frozen=True)
class Answer:
    """What one rank did in one case.

    state: "returned", "raised", "waited" (for other ranks, until its time-out),
        "looped" (until it was interrupted), "stuck" (still is) or "died".
    inputs, expected, yours: tensors as `Snapshot`; lists, tuples, numbers and text
        as they are; anything else as `Other`.
    aliases: pairs of items of the result that share memory.
    shares, changed: the result shares memory with the input; the input is changed.
    calls: the calls of torch.distributed that the function made.
    outside: whole numbers that the function reads from the notebook, by name.
    after: how the default process group looks after the call.
    peak: bytes that the call added at its worst moment, where that is measured.
    error, place: what was raised or waited for, and the line where.
    """

    state: str
    right: bool = False
    inputs: tuple = ()
    expected: Any = None
    yours: Any = None
    aliases: tuple[tuple[int, int], ...] = ()
    shares: bool = False
    changed: bool = False
    calls: tuple[Call, ...] = ()
    outside: dict[str, int] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    peak: int = 0
    error: str = ""
    place: str = ""


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
    """

    case: Case
    answers: tuple[Answer, ...]
    passed: tuple[Case, ...] = ()

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

    def calls(self, name: str) -> Iterator[tuple[int, Call]]:
        """Yield every call of that name, with its rank."""
        for rank, answer in enumerate(self.answers):
            yield from ((rank, call) for call in answer.calls if call.name == name)

    def difference(self) -> Difference | None:
        """Find the first rank, and the first item of its list, that differ."""
        for rank in range(len(self.answers)):
            expected, yours = self.expected[rank], self.yours[rank]
            if self.answers[rank].state != "returned" or alike(expected, yours):
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


def kind(value: Any) -> str:
    """Say what a value is, as in "a tensor of shape (2,)"."""
    if value is None:
        return "None"
    if isinstance(value, Snapshot):
        return f"a tensor of shape {value.shape}"
    if isinstance(value, Other):
        return f"a {value.kind}"
    if is_list(value):
        return f"a {type(value).__name__} of {len(value)}"
    names = {"int": "a number", "float": "a number", "str": "text", "bool": "a truth"}
    return names.get(type(value).__name__, f"a {type(value).__name__}")


def listed(numbers: Iterable[int]) -> str:
    """Write numbers in order, as in "2, 3 and 4"."""
    *most, last = map(str, sorted(numbers))
    return f"{', '.join(most)} and {last}" if most else last


def words(value: Any) -> str:
    """Write a value in one line, cut where it is long."""
    text = re.sub(r"0x[0-9a-f]+", "…", _words(value))
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"


def _words(value: Any) -> str:
    if isinstance(value, Snapshot):
        if value.truncated:
            return f"tensor of shape {value.shape}, {value.dtype}"
        return _nested(value.shape, list(value.values))
    if isinstance(value, Other):
        return value.text
    if is_list(value):
        inner = ", ".join(map(_words, value))
        if type(value) is tuple:
            return f"({inner}{',' if len(value) == 1 else ''})"
        return f"[{inner}]"
    return repr(value)


def _nested(shape: tuple[int, ...], values: list) -> str:
    """Write the elements of a tensor with a bracket for each dimension."""
    if not shape:
        return str(values[0])
    step = len(values) // shape[0] if shape[0] else 0
    parts = [values[i * step : (i + 1) * step] for i in range(shape[0])]
    return "[" + ", ".join(_nested(shape[1:], part) for part in parts) + "]"
