"""How a tensor lies in memory.

Several collectives copy memory as it lies. Then all ranks need one order of elements,
and there must be nothing between them.
"""

from __future__ import annotations

import torch

MAX_DIMS = 8


def dense(tensor: torch.Tensor) -> bool:
    """Tell whether the elements fill one piece of memory, each of them once."""
    if strideless(tensor) or tensor.is_contiguous():
        return True
    expected = 1
    for dim in by_stride(tensor)[::-1]:
        if tensor.stride(dim) != expected:
            return False
        expected *= tensor.size(dim)
    return True


def packed(tensor: object) -> bool:
    """Tell whether a tensor is contiguous; what is no tensor counts as such."""
    if not isinstance(tensor, torch.Tensor) or strideless(tensor):
        return True
    return tensor.is_contiguous()


def order(tensor: torch.Tensor) -> int:
    """Write the order in which a dense tensor's dims lie in memory as a number.

    0: contiguous. Otherwise the dims, counted from 1, are the digits, the widest
    stride first; a dim of size 1 has no say, its stride may be anything.
    """
    if strideless(tensor) or tensor.is_contiguous():
        return 0
    number = 0
    for dim in by_stride(tensor)[:MAX_DIMS]:
        number = number * 100 + dim + 1
    return number


def strides(number: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a tensor of that order and shape."""
    dims = []
    while number:
        number, digit = divmod(number, 100)
        dims.append(digit - 1)
    dims = dims or [*range(len(sizes))][::-1]
    found, step = [1] * len(sizes), 1
    for dim in filter(lambda d: d < len(sizes), dims):
        found[dim] = step
        step *= sizes[dim]
    return tuple(found)


def by_stride(tensor: torch.Tensor) -> list[int]:
    """Return the dims that hold more than one element, the widest stride first."""
    dims = [dim for dim, size in enumerate(tensor.shape) if size != 1]
    return sorted(dims, key=lambda dim: -tensor.stride(dim))


def strideless(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor keeps its values otherwise, as a sparse one does."""
    return tensor.layout is not torch.strided
