"""What the backward passes share.

Gathering: every rank sends its shard to the ranks that hold the whole; backward,
these send the gradient of each slice back, and a shard's is their sum.
Broadcasting: one rank sends a tensor to all; backward, the gradients are summed
there. Scattering: one rank sends a chunk to each; backward, they are joined.
Sums are taken in the order of the ranks, so that they are repeatable to the bit.
"""

from __future__ import annotations

import torch

from course_utils.concat.transfer import as_bytes


def asked(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor, or a stand-in, such that backward comes by on this rank."""
    return tensor if tensor.requires_grad else tensor.detach().requires_grad_()


def in_bytes(tensors: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    """Return the memory of contiguous tensors as flat bytes."""
    return {rank: as_bytes(tensor) for rank, tensor in tensors.items()}


def total(parts: dict[int, torch.Tensor]) -> torch.Tensor:
    """Return the sum of tensors, added in the order of the ranks, in the first."""
    first, *rest = parts.values()
    for part in rest:
        first += part
    return first


def total_in(own: torch.Tensor, parts: dict[int, torch.Tensor]) -> torch.Tensor:
    """Return the same sum in memory of its own, where the parts are of other ranks."""
    first, *rest = parts.values()
    own.copy_(first)
    return total(dict(enumerate([own, *rest])))
