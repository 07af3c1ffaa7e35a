"""Move bytes between ranks, straight to where they belong.

Every tensor is sent as bytes, so that dtypes of which a backend knows nothing
travel, too. On gloo each piece goes directly from its rank into its slice of the
result. Gloo's own all_gather receives into a hidden buffer of the full size and
copies: twice the memory at any size.

Which way is fastest on gloo (benchmarks/concat.py, medians on 2 cores, equal
shards, in units of all_gather and torch.cat):

    shard     ranks  slices  broadcasts into slices  all_gather_single
    1 KiB     2      2.4     2.1                     0.9
    1 KiB     4      1.4     2.0                     0.9
    1 KiB     8      1.1     1.6                     0.9
    1 MiB     2      1.5     0.7                     0.9
    1 MiB     4      0.7     0.9                     0.8
    1 MiB     8      0.7     0.9                     0.8
    4 MiB     2      0.5     0.6                     0.7
    4 MiB     4      0.6     0.6                     0.7
    4 MiB     8      0.5     0.5                     0.9
    16 MiB    2      0.2     0.4                     0.9
    16 MiB    4      0.5     0.5                     0.8

Both ways into slices first tell the sizes, for which small shards, and two ranks up to
2 MiB, pay more than they gain. Slices are used for all the same: they take half of
the memory. On nccl, which has not been measured here, equal pieces take the
single-tensor collective, which is made for them.
"""

from __future__ import annotations

import torch
from torch import distributed as dist

TAG = 0x636174  # of our own, so that the caller's messages are not mistaken


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous tensor's memory as a flat tensor of bytes, not copied.

    A contiguous tensor may have odd strides where a size is 1, which `view` minds.
    """
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)


def packed(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor whose memory holds its values in order, copied if need be."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def swap(
    outgoing: dict[int, torch.Tensor],
    incoming: dict[int, torch.Tensor],
    group: dist.ProcessGroup,
) -> None:
    """Send and receive flat byte tensors, all at once; keys are global ranks.

    Empty tensors are not sent. What a rank sends to itself is copied.
    """
    me = dist.get_rank()
    ranks = dist.get_world_size()

    def others(pieces: dict[int, torch.Tensor]) -> list[tuple[int, torch.Tensor]]:
        found = [(r, t) for r, t in pieces.items() if r != me and t.numel()]
        return sorted(found, key=lambda item: (item[0] - me) % ranks)

    receive, send = others(incoming), others(outgoing)
    if "nccl" in dist.get_backend(group):  # all in one kernel, or none would begin
        operations = [dist.P2POp(dist.irecv, t, r, group, TAG) for r, t in receive]
        operations += [dist.P2POp(dist.isend, t, r, group, TAG) for r, t in send]
        works = dist.batch_isend_irecv(operations) if operations else []
    else:
        works = [dist.irecv(t, r, group, TAG) for r, t in receive]
        works += [dist.isend(t, r, group, TAG) for r, t in send]
    if me in incoming and me in outgoing:
        incoming[me].copy_(outgoing[me])
    for work in works:
        work.wait()


def spread(
    mine: torch.Tensor, into: dict[int, torch.Tensor], group: dist.ProcessGroup
) -> None:
    """Send `mine` to all ranks of the group, and receive theirs into `into`.

    mine: flat bytes; into: flat byte tensors by global rank, which lie one behind
    the other in one tensor.
    """
    sizes = {target.numel() for target in into.values()}
    if "nccl" in dist.get_backend(group):
        if len(sizes) == 1:
            first = next(iter(into.values()))
            whole = first.as_strided((len(into) * first.numel(),), (1,))
            dist.distributed_c10d.all_gather_single(whole, mine, group=group)
        else:
            dist.distributed_c10d.all_gather(list(into.values()), mine, group=group)
        return
    swap({rank: mine for rank in into}, into, group)
