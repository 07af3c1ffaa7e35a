"""Agree on what is to be joined, before any of it is sent.

One small message of fixed size per rank tells shape, dtype and device of its
piece, and which operation it calls. Every rank sees all of them, so either all
go on, with the same sizes, or all raise the same error.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import distributed as dist

from course_utils.concat import tell
from course_utils.concat.describe import (
    MAX_DIMS,
    memory_of,
    named,
    plain,
    whole_number,
)
from course_utils.concat.eager import suspended, transforming
from course_utils.concat.shared import Berth
from course_utils.concat.tell import ConcatError, Refused
from course_utils.concat.transfer import Wire
from course_utils.text import indent, rank_table, these_ranks

NONE = -1
DTYPES = sorted(
    {v for v in vars(torch).values() if isinstance(v, torch.dtype)}, key=str
)
DEVICES = ("cpu", "cuda", "xpu", "mps", "meta", "other")
OPERATIONS = {  # with the name of their root
    "all_gather_cat": None,
    "gather_cat": "dst",
    "broadcast_tensor": "src",
    "scatter_chunks": "src",
    "all_gather_list": None,
    "gather_list": "dst",
}
NAMES = list(OPERATIONS)
WIDTH = 10 + MAX_DIMS  # numbers of a record
DENSE, SCALAR, NOTHING = range(3)


class Piece(NamedTuple):
    """What one rank told about its tensor.

    kind: DENSE, SCALAR (0-dim, joined as one element), or NOTHING where only the
        root's tensor counts.
    requires_grad, grad_enabled: whether its gradient is asked for, and whether
        the rank records operations at all.
    has_room: whether the rank can get `tell.SURE` bytes for certain.
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
    has_room: bool

    @property
    def size(self) -> int:
        """Its bytes."""
        return (
            0 if self.kind == NOTHING else math.prod(self.shape) * self.dtype.itemsize
        )

    @property
    def is_filler(self) -> bool:
        """Whether this is a tensor of shape (0,), which torch.cat joins to any."""
        return self.shape == (0,)

    def __str__(self) -> str:
        if self.kind == NOTHING:
            return "None"
        name = str(self.dtype).removeprefix("torch.")
        return f"{() if self.kind == SCALAR else self.shape} {name} on {self.device}"


class Offer(NamedTuple):
    """What this rank brings to a call.

    tensor: with its graph, None where only the root's counts; sent: its values as
    flat bytes, None if it is on a device from which nothing is sent; more: flat bytes
    that are of use to the others only together with these.
    """

    tensor: torch.Tensor | None = None
    sent: torch.Tensor | None = None
    more: torch.Tensor | None = None

    @property
    def cargo(self) -> list[torch.Tensor]:
        """What may travel with the row."""
        return [part for part in (self.sent, self.more) if part is not None]


class Call(NamedTuple):
    """What is agreed on: this rank's offer, and what all told, see `tell.Told`."""

    mine: Offer
    wire: Wire
    heads: bytes
    early: list[torch.Tensor]
    berths: dict[int, Berth]

    @property
    def pieces(self) -> dict[int, Piece]:
        """What all ranks told of their tensors, by global rank."""
        return pieces_of(self.heads, self.wire.ranks)

    @property
    def has_room(self) -> bool:
        """Whether every rank can get `tell.SURE` bytes for certain."""
        return all(piece.has_room for piece in self.pieces.values())

    def arrived(self, sizes: Sequence[int]) -> list[torch.Tensor]:
        """Return what all have sent, of these sizes, if it came with the rows; else
        nothing."""
        early = self.early
        if not early or any(p.numel() < s for p, s in zip(early, sizes, strict=True)):
            return []
        return [part[:size] for part, size in zip(early, sizes, strict=True)]


def offer(operation: str, value: Any, wire: Wire) -> Offer:
    """Return a tensor ready to be sent; raise Refused if the value is none."""
    tensor = plain(value, operation)
    here = tensor.device.type == wire.device.type
    return Offer(tensor, memory_of(tensor) if here else None)


def exchange(
    operation: str,
    group: dist.ProcessGroup | None,
    look: Callable[[int, Wire], Offer],
    dim: Any = 0,
    root: Any = NONE,
) -> Call:
    """Tell the other ranks what this one brings; return that, and what all told.

    look: looks at what the rank was given, by the root and the wire. Whatever it
        raises, every rank raises. The pieces are in the order of the group.
    """
    mine, row, problem = Offer(), [0] * WIDTH, ""
    group, wrong = member(group)
    wire = Wire.of(group)
    slot = tell.slot_of(wire)
    if active := transforming():
        with suspended():
            problem = f"called it inside {active}: call it outside"
            tell.tell(operation, row, problem, wire, slot=slot)
    try:
        if wrong:
            raise Refused(wrong)
        dim = whole_number(dim, "dim")
        if OPERATIONS[operation]:
            root = whole_number(root, OPERATIONS[operation])
        mine = look(root, wire)
        row = record(operation, mine, dim, root, tell.has_room(wire.device))
    except Exception as error:
        problem = tell.problem_of(error)
    told = tell.tell(operation, row, problem, wire, mine.cargo, slot)
    return Call(mine, wire, told.heads, told.early, told.berths)


@lru_cache(tell.KEPT)
def pieces_of(heads: bytes, ranks: tuple[int, ...]) -> dict[int, Piece]:
    """Read what all ranks told; rows that are equal once."""
    rows = {rank: row[1:] for rank, row in tell.rows_of(heads, ranks).items()}
    known = {row: piece(row) for row in set(rows.values())}
    return {rank: known[row] for rank, row in rows.items()}


def member(group: Any) -> tuple[dist.ProcessGroup, str]:
    """Return the group, the default one for None, and what is wrong with it.

    Where the group is none at all, the world hears of it, unless it names some ranks:
    then others may not have called, and waiting for them would be in vain.
    """
    if not dist.is_initialized():
        raise RuntimeError(
            "no process group: call dist.init_process_group() first, on every rank"
        )
    group = dist.group.WORLD if group is None else group
    outside = group is dist.GroupMember.NON_GROUP_MEMBER
    if isinstance(group, dist.ProcessGroup) and dist.get_rank(group) >= 0:
        return group, ""
    if outside or isinstance(group, dist.ProcessGroup):
        raise ValueError(
            f"group: rank {dist.get_rank()} is not in it; only its ranks may call this"
        )
    what, pass_ = f"{named(group)} as the group", "what dist.new_group(ranks) returns"
    if isinstance(group, (list, tuple, set, frozenset, range)):
        raise ConcatError(
            f"group: expected a process group, got {named(group)}: pass {pass_}"
        )
    if type(group).__name__ == "DeviceMesh":
        raise ConcatError("group: got a DeviceMesh: pass mesh.get_group()")
    return dist.group.WORLD, f"passed {what}: pass {pass_}, or None for all ranks"


def record(
    operation: str, mine: Offer, dim: int = 0, root: int = NONE, room: bool = True
) -> list[int]:
    """Write a piece as whole numbers: always the same number of them."""
    head = [NAMES.index(operation), dim, root, int(torch.is_grad_enabled()), room]
    tensor = mine.tensor
    if tensor is None:
        return [*head, NOTHING, NONE, NONE, 0, 0, *[0] * MAX_DIMS]
    kind = SCALAR if tensor.dim() == 0 else DENSE
    device = tensor.device.type if tensor.device.type in DEVICES else "other"
    shape = list(tensor.shape)
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


def piece(row: Sequence[int]) -> Piece:
    """Read what `record` wrote."""
    operation, dim, root, enabled, room, kind, dtype, device, grad, dims, *shape = row
    return Piece(
        operation=NAMES[operation],
        kind=kind,
        dim=dim,
        root=root,
        dtype=DTYPES[dtype] if dtype != NONE else None,
        device=DEVICES[device] if device != NONE else "",
        shape=(1,) if kind == SCALAR else tuple(shape[:dims]),
        requires_grad=bool(grad and enabled),
        grad_enabled=bool(enabled),
        has_room=bool(room),
    )


def alike(pieces: dict[int, Piece]) -> bool:
    """Tell whether all ranks told the same, see `pieces_of`."""
    return len(set(map(id, pieces.values()))) == 1


def check_call(pieces: dict[int, Piece]) -> None:
    """Raise ConcatError unless all ranks make the same call with the same root."""
    first = next(iter(pieces.values()))
    if not alike(pieces):
        agree_on(pieces, "operation", {r: p.operation for r, p in pieces.items()})
        agree_on(pieces, "root", {r: p.root for r, p in pieces.items()})
    root = first.root
    if OPERATIONS[first.operation] and root not in pieces:
        raise ConcatError(
            f"{name_of(pieces)}: rank {root} is not in the group of "
            f"{these_ranks(pieces)}; the root is a rank of the world, not of the group"
        )
    check_grad(pieces)


def check_grad(pieces: dict[int, Piece]) -> None:
    """Raise ConcatError where gradients are asked for but not recorded by all."""
    if any(p.requires_grad for p in pieces.values()):
        off = [r for r, p in pieces.items() if not p.grad_enabled]
        if off:
            raise ConcatError(
                f"{name_of(pieces)}: gradients are asked for, but {these_ranks(off)} "
                "called it under no_grad: call it alike on every rank"
            )


def check_pieces(pieces: dict[int, Piece], wire: Wire) -> None:
    """Raise ConcatError unless every piece is on a device the backend sends from."""
    needed = wire.device.type
    wrong = [rank for rank, p in pieces.items() if p.device != needed]
    if wrong:
        found = pieces[wrong[0]].device
        wrong = [rank for rank in wrong if pieces[rank].device == found]
        way = f"call .to('{needed}') first"
        if found == "meta":
            way = "a meta tensor holds no values to be sent"
        raise ConcatError(
            f"{name_of(pieces)}: the tensor of {these_ranks(wrong)} is on {found}; "
            f"{wire.backend} sends tensors on {needed}: {way}"
        )


def checked(pieces: dict[int, Piece], wire: Wire) -> int:
    """Check pieces that are to be joined; return the dim, counted from the front."""
    check_call(pieces)
    check_pieces(pieces, wire)
    return check_joinable(pieces)


def check_joinable(pieces: dict[int, Piece]) -> int:
    """Raise ConcatError unless `torch.cat` could join the pieces; return the dim.

    The dim that is returned counts from the front.
    """
    first = next(iter(pieces.values()))
    dims = len(first.shape)
    if alike(pieces) and -dims <= first.dim < dims:
        return first.dim % dims
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
    heading, shown = "tensor", pieces
    if what in ("operation", "root", "dim"):
        heading, shown = what, values
    table = rank_table([heading], {rank: (str(v),) for rank, v in shown.items()})
    raise ConcatError(
        "\n".join(
            [
                f"{name_of(pieces)}: the ranks disagree on the {what}; "
                f"{these_ranks(odd)} differ{'s' if len(odd) == 1 else ''} "
                "from the others",
                *indent(table),
            ]
        )
    )


def name_of(pieces: dict[int, Piece]) -> str:
    """Return the operation that most ranks call."""
    return Counter(p.operation for p in pieces.values()).most_common(1)[0][0]
