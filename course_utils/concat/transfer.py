"""Move bytes between ranks, straight to where they belong.

Every tensor is sent as bytes, so that dtypes of which a backend knows nothing
travel, too. On gloo each piece goes directly from its rank into its slice of the
result. Gloo's own all_gather receives into a hidden buffer of the full size and
copies: twice the memory at any size.

Which way is fastest on sockets (CONCAT_SHARED_MEMORY=0 benchmarks/concat.py, medians on
2 cores, gloo, equal shards, in units of all_gather and torch.cat):

    shard     ranks  slices  broadcasts into slices  all_gather_single
    1 KiB     2      1.4 *   2.0                     0.9
    1 KiB     4      0.4 *   1.6                     0.6
    1 KiB     8      0.8 *   2.0                     1.1
    1 MiB     2      1.5     0.7                     0.9
    1 MiB     4      0.7     0.9                     0.8
    1 MiB     8      0.7     0.9                     0.8
    4 MiB     2      0.5     0.6                     0.7
    4 MiB     4      0.6     0.6                     0.7
    4 MiB     8      0.5     0.5                     0.9
    16 MiB    2      0.2     0.4                     0.9
    16 MiB    4      0.5     0.5                     0.8

Both ways into slices first tell the sizes, for which two ranks pay more than they gain
up to 2 MiB. * Up to 4096 bytes travel with the sizes, see `tell`: one exchange of
padded messages, to all ranks also where one alone gets the whole. Slices are used in
any case: they take half of the memory. Ranks of one host use no sockets up to 32 MiB,
see `shared` and `same_host`; on 2, 4 and 8 ranks that takes 0.5, 0.3 and 0.2 for 1 KiB,
0.5, 0.3 and 0.3 for 64 KiB, 0.3, 0.3 and 0.2 for 1 MiB, 0.3, 0.2 and 0.3 for 4 MiB. For
ranks on several hosts see `hosts`. On nccl, which has not been measured here, equal
pieces take the single-tensor collective, which is made for them.

With TORCH_DISTRIBUTED_DEBUG=DETAIL torch counts the messages of every rank, those
between two of them included, and fails the next collective where the counts differ.
There a collective that all ranks count once takes the place of the messages.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import distributed as dist

from course_utils.same_host import is_counted

c10d = dist.distributed_c10d  # its functions, which nothing wraps
# torch before 2.13 has the single-tensor form under another name alone.
KNOWN = hasattr(c10d, "all_gather_single")
SINGLE = "all_gather_single" if KNOWN else "all_gather_into_tensor"
TAG = 0x636174  # of our own, so that the caller's messages are not mistaken


class Wire(NamedTuple):
    """How the ranks of a group reach each other.

    ranks: global, in the order of the group; me: this one; device: whose tensors are
    sent; counted: whether torch compares how many messages the ranks have sent.
    """

    group: dist.ProcessGroup | None
    ranks: tuple[int, ...]
    me: int
    backend: str
    device: torch.device
    counted: bool

    @classmethod
    def of(cls, group: dist.ProcessGroup) -> Wire:
        """Return the wire of a group that this rank is in."""
        backend, device = dist.get_backend(group), torch.device("cpu")
        if "nccl" in backend:
            device = torch.device("cuda", torch.cuda.current_device())
        ranks = tuple(dist.get_process_group_ranks(group))
        counted = is_counted(group, device)
        return cls(group, ranks, ranks[group.rank()], backend, device, counted)

    @property
    def apart(self) -> Wire:
        """The same without the group, which must not be kept alive by a plan."""
        return self._replace(group=None)

    @property
    def is_nccl(self) -> bool:
        """Whether the group sends from the memory of GPUs."""
        return self.device.type == "cuda"


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous tensor's memory as a flat tensor of bytes, not copied.

    A contiguous tensor may have odd strides where a size is 1, which `view` minds.
    """
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)


def packed(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor whose memory holds its values in order, copied if need be."""
    if tensor.layout != torch.strided:  # as gradients of an embedding may be
        tensor = tensor.to_dense()
    if tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg()):
        return tensor.detach()
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def swap(
    outgoing: dict[int, torch.Tensor],
    incoming: dict[int, torch.Tensor],
    wire: Wire,
) -> None:
    """Send and receive flat byte tensors, all at once; keys are global ranks.

    Every rank of the group calls it. Empty tensors are not sent. What a rank sends
    to itself is copied.
    """
    if wire.counted:
        swap_as_one(outgoing, incoming, wire)
        return
    me, group = wire.me, wire.group
    farthest = max(wire.ranks) + 1

    def others(pieces: dict[int, torch.Tensor]) -> list[tuple[int, torch.Tensor]]:
        found = [(r, t) for r, t in pieces.items() if r != me and t.numel()]
        return sorted(found, key=lambda item: (item[0] - me) % farthest)

    receive, send = others(incoming), others(outgoing)
    if wire.is_nccl:  # all in one kernel, or none would begin
        operations = [c10d.P2POp(c10d.irecv, t, r, group, TAG) for r, t in receive]
        operations += [c10d.P2POp(c10d.isend, t, r, group, TAG) for r, t in send]
        works = c10d.batch_isend_irecv(operations) if operations else []
    else:
        works = [c10d.irecv(t, r, group, TAG) for r, t in receive]
        works += [c10d.isend(t, r, group, TAG) for r, t in send]
    if me in incoming and me in outgoing:
        incoming[me].copy_(outgoing[me])
    for work in works:
        work.wait()


def swap_as_one(
    outgoing: dict[int, torch.Tensor],
    incoming: dict[int, torch.Tensor],
    wire: Wire,
) -> None:
    """Swap as `swap` does, by one collective that all ranks count."""
    nothing = torch.empty(0, dtype=torch.uint8, device=wire.device)
    send = [outgoing.get(rank, nothing) for rank in wire.ranks]
    receive = [incoming.get(rank, nothing) for rank in wire.ranks]
    flat = in_a_row(send)
    flat = torch.cat(send) if flat is None else flat
    lengths = [part.numel() for part in receive]
    into = in_a_row(receive)
    whole = flat.new_empty(sum(lengths)) if into is None else into
    sizes = [part.numel() for part in send]
    c10d.all_to_all_single(whole, flat, lengths, sizes, wire.group)
    if into is None:
        for part, got in zip(receive, whole.split(lengths), strict=True):
            part.copy_(got)


def in_a_row(parts: list[torch.Tensor]) -> torch.Tensor | None:
    """Return flat byte tensors as one, if they lie one behind the other in memory."""
    solid = [part for part in parts if part.numel()]
    if not solid:
        return parts[0]
    where = solid[0].data_ptr()
    for part in solid:
        if part.data_ptr() != where:
            return None
        where += part.numel()
    first = solid[0]
    if where - first.data_ptr() > room(first):
        return None
    return first.as_strided((where - first.data_ptr(),), (1,))


def room(part: torch.Tensor) -> int:
    """Return how many bytes lie in a flat byte tensor's memory from its begin."""
    return part.untyped_storage().nbytes() - part.storage_offset()


def spread(mine: torch.Tensor, into: dict[int, torch.Tensor], wire: Wire) -> None:
    """Send `mine` to all ranks of the group, and receive theirs into `into`.

    mine: flat bytes; into: flat byte tensors by global rank, which lie one behind
    the other in one tensor.
    """
    group, sizes = wire.group, {target.numel() for target in into.values()}
    if wire.is_nccl:
        if len(sizes) == 1:
            first = next(iter(into.values()))
            whole = first.as_strided((len(into) * first.numel(),), (1,))
            getattr(c10d, SINGLE)(whole, mine, group=group)
        else:
            c10d.all_gather(list(into.values()), mine, group=group)
    elif wire.counted:  # as many copies of it as there are ranks would not be had
        into[wire.me].copy_(mine)
        for rank, target in into.items():
            if target.numel():
                c10d.broadcast(target, rank, group)
    else:
        swap(dict.fromkeys(into, mine), into, wire)
