"""Copy and compare results that hold tensors, and make them readable elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from course_utils.exercises.answers import Other
from course_utils.pictures import Snapshot

MOST_ITEMS = 64  # of a list that an answer carries
MOST_ADDRESSES = 4096  # of a tensor's elements, when memory is compared


def copied(value: Any) -> Any:
    """Return a copy whose tensors have memory of their own."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, (list, tuple)):
        return type(value)(copied(item) for item in value)
    return value


def same(one: Any, other: Any) -> bool:
    """Tell whether two results are equal in type, shape, dtype and every value."""
    if isinstance(one, torch.Tensor):
        return (
            isinstance(other, torch.Tensor)
            and (one.shape, one.dtype) == (other.shape, other.dtype)
            and torch.equal(one.cpu(), other.detach().cpu())
        )
    if isinstance(one, (list, tuple)):
        return (
            isinstance(other, (list, tuple))
            and len(one) == len(other)
            and all(map(same, one, other))
        )
    return type(one) is type(other) and one == other


def addresses(value: Any) -> Iterator[int]:
    """Yield the addresses of the elements of all tensors in a value."""
    if isinstance(value, (list, tuple)):
        for item in value[:MOST_ITEMS]:
            yield from addresses(item)
    elif isinstance(value, torch.Tensor) and value.layout is torch.strided:
        offsets = torch.zeros(value.shape, dtype=torch.int64)
        for dim, (size, stride) in enumerate(
            zip(value.shape, value.stride(), strict=True)
        ):
            along = [1] * value.dim()
            along[dim] = size
            offsets = offsets + (torch.arange(size) * stride).view(along)
        for offset in offsets.flatten()[:MOST_ADDRESSES].tolist():
            yield value.data_ptr() + offset * value.element_size()


def plain(value: Any) -> Any:
    """Turn a value into one that the client can read without torch."""
    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
        return Snapshot.of(value)
    if type(value) in (list, tuple):
        if len(value) > MOST_ITEMS:
            kind = type(value).__name__
            return Other(kind, f"a {kind} of {len(value)}")
        return type(value)(plain(item) for item in value)
    if value is None or type(value) in (bool, int, float, str):
        return value
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return Other(type(value).__name__, text)
