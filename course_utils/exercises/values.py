"""Copy and compare results that hold tensors, and make them readable elsewhere."""

from __future__ import annotations

import math
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


def same(one: Any, other: Any, tolerance: float = 0.0) -> bool:
    """Tell whether two results are equal in type, shape, dtype and every value.

    tolerance: of floating point numbers, as a share of the first one's.
    """
    if isinstance(one, torch.Tensor):
        return alike_in_form(one, other) and close(one, other, tolerance)
    if isinstance(one, (list, tuple)):
        return (
            isinstance(other, (list, tuple))
            and len(one) == len(other)
            and all(same(*pair, tolerance) for pair in zip(one, other, strict=True))
        )
    if type(one) is float and type(other) is float:
        return math.isclose(one, other, rel_tol=tolerance, abs_tol=0.0)
    return type(one) is type(other) and one == other


def alike_in_form(one: torch.Tensor, other: Any) -> bool:
    """Tell whether something is a tensor of the same shape and dtype."""
    return isinstance(other, torch.Tensor) and (one.shape, one.dtype) == (
        other.shape,
        other.dtype,
    )


def close(one: torch.Tensor, other: torch.Tensor, tolerance: float) -> bool:
    """Tell whether two tensors of one shape and dtype have the same values."""
    one, other = one.detach().cpu(), other.detach().cpu()
    if tolerance and one.dtype.is_floating_point:
        return torch.allclose(other, one, rtol=tolerance, atol=0.0)
    return torch.equal(one, other)


def first_place(one: Any, other: Any) -> tuple[tuple[int, ...], Any, Any] | None:
    """Return index and values where two tensors of one form, or lists, differ first."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        found = (first_place(*pair) for pair in zip(one, other, strict=False))
        return next(filter(None, found), None)
    if not isinstance(one, torch.Tensor) or not alike_in_form(one, other):
        return None
    unequal = (one.cpu() != other.detach().cpu()).nonzero()
    if not len(unequal):
        return None
    index = tuple(unequal[0].tolist())
    return index, one[index].item(), other[index].item()


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
