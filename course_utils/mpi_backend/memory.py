"""The memory of tensors, as MPI reads and writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from mpi4py import MPI


def raw(tensor: torch.Tensor) -> MPI.buffer:
    """Return the memory of a contiguous tensor as bytes, whatever its dtype."""
    return MPI.buffer.fromaddress(tensor.data_ptr(), tensor.nbytes)


def packed(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor whose memory holds its values in order, copied if need be."""
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        raise ValueError(
            f"mpi: expected a dense tensor on the CPU, got one on {tensor.device} "
            f"({tensor.layout}): move it there first"
        )
    return tensor.detach().contiguous()


def landing(tensor: torch.Tensor) -> tuple[torch.Tensor, Callable | None]:
    """Return memory into which MPI writes for a tensor, and what copies it there.

    That is the tensor itself where its memory is in order; nothing is copied then.
    """
    held = packed(tensor)
    if held.data_ptr() == tensor.data_ptr():
        return held, None
    return held, lambda: tensor.copy_(held)


def in_a_row(tensors: Sequence[torch.Tensor], like: torch.Tensor) -> torch.Tensor:
    """Return the values of equal tensors, one behind the other; a row for each."""
    check_equal(tensors, like)
    return torch.stack([packed(tensor).reshape(-1) for tensor in tensors])


def spread(rows: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    """Copy each row into its tensor."""
    for row, tensor in zip(rows, tensors, strict=True):
        tensor.copy_(row.view(tensor.shape))


def check_equal(tensors: Sequence[torch.Tensor], like: torch.Tensor) -> None:
    """Raise ValueError unless tensors have the size and dtype of another one."""
    for i, tensor in enumerate(tensors):
        if (tensor.numel(), tensor.dtype) != (like.numel(), like.dtype):
            raise ValueError(
                f"mpi: expected tensors of {like.numel()} elements of {like.dtype}, "
                f"got {tensor.numel()} of {tensor.dtype} at position {i} of the list"
            )


def check_kinds(tensors: Sequence[torch.Tensor]) -> None:
    """Raise TypeError unless all tensors have one dtype."""
    if len(kinds := {str(tensor.dtype) for tensor in tensors}) > 1:
        raise TypeError(
            f"mpi: expected tensors of one dtype, got {', '.join(sorted(kinds))}"
        )


def check_whole(whole: torch.Tensor, part: torch.Tensor, size: int) -> None:
    """Raise ValueError unless a tensor has room for a part from each rank."""
    if (whole.numel(), whole.dtype) != (size * part.numel(), part.dtype):
        raise ValueError(
            f"mpi: expected {size} times {part.numel()} elements of {part.dtype} in "
            f"one tensor, got {whole.numel()} of {whole.dtype}"
        )
