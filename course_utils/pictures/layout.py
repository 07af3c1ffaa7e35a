"""What a tensor looks like, and which rank each of its elements came from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

MAX_ELEMENTS = 256
"""Elements that a snapshot carries at most: enough for a picture, cheap to send."""

MAX_ITEMS = 32
"""Items that the snapshot of a list carries at most."""

Index = tuple[int, ...]


@dataclass(frozen=True)
class Snapshot:
    """A tensor's shape, dtype and device, and the values that a picture can show.

    `values` holds the elements in row-major order.  Where a tensor has more than
    `MAX_ELEMENTS` of them, `kept` names the indices along each dimension (the
    first and the last ones) whose elements `values` holds; else it is None.
    """

    shape: tuple[int, ...]
    dtype: str
    values: tuple
    device: str
    kept: tuple[Index, ...] | None = None

    @classmethod
    def of(cls, value: Any) -> Snapshot | Blocks | None:
        """Take the snapshot of a tensor, array, number or string.

        A list or tuple becomes `Blocks`, and None stays None: the rank does not
        hold the name.  Raises TypeError for anything else.
        """
        if value is None:
            return None
        if isinstance(value, (list, tuple)):
            kept = ends(len(value), MAX_ITEMS)
            return Blocks(tuple(cls.of(value[i]) for i in kept), len(value))
        if isinstance(value, (bool, int, float, complex, str)):
            return cls((), type(value).__name__, (value,), "cpu")
        if not (hasattr(value, "shape") and hasattr(value, "dtype")):
            raise TypeError(
                "expected a tensor, an array, a number, a string or a list of these, "
                f"got {type(value).__name__}; show the tensors it holds instead"
            )
        return cls(*_parts(value))

    @property
    def truncated(self) -> bool:
        """Tell whether the tensor has elements that `values` leaves out."""
        return len(self.values) < math.prod(self.shape)

    @property
    def axes(self) -> tuple[Index, ...]:
        """Give the indices along each dimension whose elements are held."""
        return _axes(self.shape) if self.kept is None else self.kept


@dataclass(frozen=True)
class Blocks:
    """A Python list of tensors: its first and last items, and its true length."""

    items: tuple[Snapshot | Blocks | None, ...]
    length: int

    @property
    def truncated(self) -> bool:
        """Tell whether the list, or any item in it, is longer than what is held."""
        return len(self.items) < self.length or any(
            item.truncated for item in self.items if item is not None
        )


def origins(
    snapshot: Snapshot, shards: Sequence[Snapshot | Blocks | None]
) -> tuple[int | None, ...]:
    """Find the rank whose shard holds each value of `snapshot`, in its order.

    The rank is the position in `shards`.  It is None where no rank or more than
    one holds the value, and where another rank's shard is truncated, since the
    part of it that was not sent may hold the value as well.
    """
    holders: dict[Any, set[int]] = {}
    unseen = set()
    for rank, shard in enumerate(shards):
        if shard is None:
            continue
        if shard.truncated:
            unseen.add(rank)
        for value in _values(shard):
            holders.setdefault(_key(value), set()).add(rank)
    found = (holders.get(_key(value), set()) | unseen for value in snapshot.values)
    return tuple(
        min(ranks) if len(ranks) == 1 and _key(value) in holders else None
        for value, ranks in zip(snapshot.values, found, strict=True)
    )


def _values(block: Snapshot | Blocks | None) -> tuple:
    if isinstance(block, Blocks):
        return tuple(value for item in block.items for value in _values(item))
    return () if block is None else block.values


def _key(value: Any) -> Any:
    """Make True differ from 1, and let NaN match nothing, not even itself."""
    return object() if value != value else (isinstance(value, bool), value)


def _parts(tensor: Any) -> tuple:
    """Read the fields of a tensor's snapshot."""
    shape = tuple(int(length) for length in tensor.shape)
    dtype = str(tensor.dtype).removeprefix("torch.")
    device = str(getattr(tensor, "device", "cpu"))
    kept = _kept(shape)
    try:
        if device == "meta":
            raise NotImplementedError("a meta tensor has a shape but no values")
        values = tuple(_elements(tensor, _axes(shape) if kept is None else kept))
    except NotImplementedError:  # torch cannot read such a dtype, int4 for one
        kept, values = tuple(() for _ in shape), ()
    return shape, dtype, values, device, kept


def _axes(shape: Sequence[int]) -> tuple[Index, ...]:
    return tuple(tuple(range(length)) for length in shape)


def ends(length: int, most: int) -> Index:
    """List the indices of a dimension, or its first and last ones: `most` in all."""
    if length <= most:
        return tuple(range(length))
    tail = most // 2
    return (*range(most - tail), *range(length - tail, length))


def _kept(shape: tuple[int, ...]) -> tuple[Index, ...] | None:
    """Choose the largest even cut of all dimensions that keeps `MAX_ELEMENTS`."""
    if math.prod(shape) <= MAX_ELEMENTS:
        return None
    for most in range(MAX_ELEMENTS, 1, -1):
        if math.prod(min(length, most) for length in shape) <= MAX_ELEMENTS:
            break
    else:
        most = 1
    return tuple(ends(length, most) for length in shape)


def _elements(value: Any, axes: tuple[Index, ...]) -> Any:
    """Yield the elements at `axes` as Python objects, the last dimension fastest."""
    if hasattr(value, "detach"):
        value = value.detach()
    for index in product(*axes):
        element = value[index] if index else value
        yield element.item() if hasattr(element, "item") else element
