"""Agree on what is to be joined, before any of it is sent.

One small message of fixed size per rank tells shape, dtype and device of its
piece, and which operation it calls. Every rank sees all of them, so either all
go on, with the same sizes, or all raise the same error.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import distributed as dist

from course_utils.concat.transfer import as_bytes, swap
from course_utils.text import aligned, indent, these_ranks

MAX_DIMS = 16
NONE = -1
DTYPES = sorted(
    {v for v in vars(torch).values() if isinstance(v, torch.dtype)}, key=str
)
DEVICES = ("cpu", "cuda", "xpu", "mps", "meta", "other")
OPERATIONS = (
    "all_gather_cat",
    "gather_cat",
    "broadcast_tensor",
    "scatter_chunks",
    "all_gather_list",
    "gather_list",
)
SCALAR, DENSE, TOO_MANY_DIMS, SPARSE, NOTHING = range(5)


class ConcatError(ValueError):
    """The pieces of the ranks cannot be joined; every rank raises the same text."""


@dataclass(frozen=True)
class Piece:
    """What one rank told about its tensor.

    kind: DENSE, SCALAR (0-dim, joined as one element), NOTHING for None, or a
        reason why the tensor cannot be sent.
    requires_grad, grad_enabled: whether its gradient is asked for, and whether
        the rank records operations at all.
    """

    operation: str
    kind: int
    dim: int
    root: int
    dtype: torch.dtype | None
    device: str
    shape: tuple[int, ...]
    requires_grad: bool
    grad_enabled: bool

    @property
    def is_filler(self) -> bool:
        """Whether this is a tensor of shape (0,), which torch.cat joins to any."""
        return self.shape == (0,)

    def __str__(self) -> str:
        if self.kind == NOTHING:
            return "None"
        name = str(self.dtype).removeprefix("torch.")
        return f"{() if self.kind == SCALAR else self.shape} {name} on {self.device}"


def exchange_pieces(
    operation: str,
    tensor: torch.Tensor | None,
    group: dist.ProcessGroup,
    dim: int = 0,
    root: int = NONE,
) -> dict[int, Piece]:
    """Tell the other ranks of the group about `tensor`; return what all told.

    The result is keyed by global rank, in the order of the group.
    """
    told = record(operation, tensor, dim, root)
    nccl = "nccl" in dist.get_backend(group)
    mine = torch.tensor(told, dtype=torch.int64, device="cuda" if nccl else "cpu")
    ranks = dist.get_process_group_ranks(group)
    rows = mine.new_empty(len(ranks), len(told))
    if nccl:
        dist.distributed_c10d.all_gather_single(rows.view(-1), mine, group=group)
    else:  # half the time of gloo's all_gather, which passes it on from rank to rank
        into = dict(zip(ranks, rows.view(torch.uint8), strict=True))
        swap(dict.fromkeys(ranks, as_bytes(mine)), into, group)
    return {rank: piece(row) for rank, row in zip(ranks, rows.tolist(), strict=True)}


def record(
    operation: str, tensor: torch.Tensor | None, dim: int, root: int
) -> list[int]:
    """Write a piece as whole numbers: always the same number of them."""
    head = [OPERATIONS.index(operation), dim, root, int(torch.is_grad_enabled())]
    if not isinstance(tensor, torch.Tensor):
        return [*head, NOTHING, NONE, NONE, 0, 0, *[0] * MAX_DIMS]
    kind = SCALAR if tensor.dim() == 0 else DENSE
    if tensor.layout != torch.strided:
        kind = SPARSE
    if tensor.dim() > MAX_DIMS:
        kind = TOO_MANY_DIMS
    device = tensor.device.type if tensor.device.type in DEVICES else "other"
    shape = list(tensor.shape)[:MAX_DIMS]
    return [
        *head,
        kind,
        DTYPES.index(tensor.dtype),
        DEVICES.index(device),
        int(tensor.requires_grad),
        len(shape),
        *shape,
        *[0] * (MAX_DIMS - len(shape)),
    ]


def piece(row: list[int]) -> Piece:
    """Read what `record` wrote."""
    operation, dim, root, enabled, kind, dtype, device, grad, dims, *shape = row
    return Piece(
        operation=OPERATIONS[operation],
        kind=kind,
        dim=dim,
        root=root,
        dtype=DTYPES[dtype] if dtype != NONE else None,
        device=DEVICES[device] if device != NONE else "",
        shape=(1,) if kind == SCALAR else tuple(shape[:dims]),
        requires_grad=bool(grad and enabled),
        grad_enabled=bool(enabled),
    )


def check_call(pieces: dict[int, Piece]) -> None:
    """Raise ConcatError unless all ranks make the same call with the same root."""
    agree_on(pieces, "operation", {r: p.operation for r, p in pieces.items()})
    agree_on(pieces, "root", {r: p.root for r, p in pieces.items()})
    root = next(iter(pieces.values())).root
    if root != NONE and root not in pieces:
        raise ConcatError(
            f"{name_of(pieces)}: rank {root} is not in the group of "
            f"{these_ranks(pieces)}; the root is a rank of the world, not of the group"
        )
    if any(p.requires_grad for p in pieces.values()):
        off = [r for r, p in pieces.items() if not p.grad_enabled]
        if off:
            raise ConcatError(
                f"{name_of(pieces)}: gradients are asked for, but {these_ranks(off)} "
                "called it under no_grad: call it alike on every rank"
            )


def check_pieces(pieces: dict[int, Piece], backend: str) -> None:
    """Raise ConcatError unless every piece is a dense tensor the backend can send."""
    reasons = {
        NOTHING: "passed None instead of a tensor",
        SPARSE: "passed a sparse tensor: call .to_dense() first",
        TOO_MANY_DIMS: f"passed a tensor of more than {MAX_DIMS} dimensions",
    }
    for kind, reason in reasons.items():
        ranks = [rank for rank, p in pieces.items() if p.kind == kind]
        if ranks:
            raise ConcatError(f"{name_of(pieces)}: {these_ranks(ranks)} {reason}")
    needed = "cuda" if "nccl" in backend else "cpu"
    wrong = [rank for rank, p in pieces.items() if p.device != needed]
    if wrong:
        found = pieces[wrong[0]].device
        raise ConcatError(
            f"{name_of(pieces)}: the tensor of {these_ranks(wrong)} is on {found}; "
            f"{backend} sends tensors on {needed}: call .to('{needed}') first"
        )


def check_joinable(pieces: dict[int, Piece]) -> int:
    """Raise ConcatError unless `torch.cat` could join the pieces; return the dim.

    The dim that is returned counts from the front.
    """
    agree_on(pieces, "dtype", {r: p.dtype for r, p in pieces.items()})
    solid = {r: p for r, p in pieces.items() if not p.is_filler} or pieces
    agree_on(
        pieces, "number of dimensions", {r: len(p.shape) for r, p in solid.items()}
    )
    dims = len(next(iter(solid.values())).shape)
    out = {r: p.dim for r, p in pieces.items() if not -dims <= p.dim < dims}
    if out:
        rank, dim = next(iter(out.items()))
        raise ConcatError(
            f"{name_of(pieces)}: dim {dim} on {these_ranks(out)} is out of range; "
            f"tensors of {dims} dimensions have dims {-dims} to {dims - 1}"
        )
    agree_on(pieces, "dim", {r: p.dim % dims for r, p in pieces.items()})
    dim = next(iter(pieces.values())).dim % dims
    rest = {r: p.shape[:dim] + p.shape[dim + 1 :] for r, p in solid.items()}
    agree_on(pieces, f"shape apart from dim {dim}", rest)
    return dim


def agree_on(pieces: dict[int, Piece], what: str, values: dict[int, object]) -> None:
    """Raise ConcatError, naming the ranks that differ, unless all values are one."""
    if len(set(values.values())) < 2:
        return
    usual, _ = Counter(values.values()).most_common(1)[0]
    odd = [rank for rank, value in values.items() if value != usual]
    rows = [("rank", "tensor")] + [(rank, p) for rank, p in pieces.items()]
    if what in ("operation", "root", "dim"):
        rows = [("rank", what)] + list(values.items())
    raise ConcatError(
        "\n".join(
            [
                f"{name_of(pieces)}: the ranks disagree on the {what}; "
                f"{these_ranks(odd)} differ{'s' if len(odd) == 1 else ''} "
                "from the others",
                *indent(aligned(rows)),
            ]
        )
    )


def name_of(pieces: dict[int, Piece]) -> str:
    """Return the operation that most ranks call."""
    return Counter(p.operation for p in pieces.values()).most_common(1)[0][0]
