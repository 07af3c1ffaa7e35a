"""What one process makes of the shards of all ranks, and whether we make the same.

The tests of `concat` run this file on every rank, with the cases of `concat_cases`.
"""

import torch
from torch import distributed as dist

from course_utils import concat
from course_utils.concat import hosts, relay, shared, tell

relay.STEP = 100  # bytes: what travels here is small
GROUPS = [(0,), (3,), (0, 1), (4, 2), (0, 1, 2), (1, 2, 4), (0, 2, 3, 4), None]
made = {g: None if g is None else dist.new_group(sorted(g)) for g in GROUPS}


def shards_of(case):
    """Every rank's shard, the same on every rank."""
    random = torch.Generator().manual_seed(case["seed"])
    dtype = getattr(torch, case["dtype"])
    shards = []
    for shape in case["shapes"]:
        full = (torch.randn(shape, generator=random, dtype=torch.float64) * 9).to(dtype)
        if case["layout"] == "transposed" and full.dim() > 1:
            full = full.transpose(0, -1).contiguous().transpose(0, -1)
        if case["layout"] == "strided" and full.dim() > 0:
            full = torch.stack([full, full], -1)[..., 0]
        shards.append(full)
    return shards


def joined(shards, dim):
    """What one process makes of the shards."""
    return torch.cat([s.reshape(1) if s.dim() == 0 else s for s in shards], dim)


def same(got, expected):
    """Whether two tensors agree in shape, dtype and every bit."""
    if got is None or got.shape != expected.shape or got.dtype != expected.dtype:
        return False
    bits = []
    for tensor in (got, expected):
        fresh = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach())
        bits.append(fresh.reshape(-1).view(torch.uint8))
    return torch.equal(*bits)


def choose_ways(case, group):
    """Switch the fast ways of small and of shared pieces on or off, as the case has it;
    where one rank alone has no shared memory, no rank may use it."""
    tell.EAGER = relay.LEAST = case["slot"]
    group = group or dist.group.WORLD
    docks = [shared.dock_of(group)]
    crowd = hosts._crowds.get(group)
    if crowd is not None and len(crowd.here) > 1:
        docks.append(crowd.dock)
    for dock in docks:
        dock.works, dock.is_over = dist.get_rank() not in case["apart"], False


def forward(case):
    """Run every function on this rank; return the names of those that differ."""
    me, members, group = dist.get_rank(), case["members"], made[case["group"]]
    if me not in members:
        return []
    choose_ways(case, group)
    shards, dim, root = shards_of(case), case["dim"], case["root"]
    mine, expected = shards[members.index(me)], joined(shards, dim)
    at_root = shards[members.index(root)]
    sent, whole = (at_root, expected) if me == root else (None, None)
    lists = [[s, s.reshape(-1)] * (i % 3) for i, s in enumerate(shards)]
    flat = [s for part in lists for s in part]
    own = lists[members.index(me)]
    chunk = expected.tensor_split(len(members), dim)[members.index(me)]
    results = {
        "all_gather_cat": all(  # the third time on, it may go a short way
            same(concat.all_gather_cat(mine, dim, group), expected) for _ in range(4)
        ),
        "broadcast_tensor": same(
            concat.broadcast_tensor(at_root if me == root else None, root, group),
            at_root,
        ),
        "scatter_chunks": same(
            concat.scatter_chunks(expected if me == root else None, root, dim, group),
            chunk,
        ),
    }
    full = concat.gather_cat(mine, root, dim, group)
    results["gather_cat"] = same(full, expected) if me == root else full is None
    every = concat.all_gather_list(own, group)
    results["all_gather_list"] = len(every) == len(flat) and all(map(same, every, flat))
    some = concat.gather_list(own, root, group)
    if me == root:
        good = len(some) == len(flat) and all(map(same, some, flat))
    else:
        good = some is None
    results["gather_list"] = good
    return [name for name, right in results.items() if not right]


def backward(case):
    """Compare gradients with those of one process; return what differs."""
    me, members, group = dist.get_rank(), case["members"], made[case["group"]]
    if me not in members:
        return []
    choose_ways(case, group)
    dim, root, here = case["dim"], case["root"], members.index(me)
    asked = case["asked"][: len(members)]
    asked[members.index(root)] = True
    shards, wrong = shards_of(case), []
    expected = joined(shards, dim)
    random = torch.Generator().manual_seed(case["seed"] + 1)
    weights = [
        torch.randn(expected.shape, generator=random, dtype=expected.dtype)
        for _ in members
    ]

    def oracle(losses):
        """Gradients of one process whose losses come in the order of the ranks."""
        leaves = [s.clone().requires_grad_() for s in shards]
        full = joined(leaves, dim)
        total = None
        for weight in losses:
            grads = torch.autograd.grad(
                (full * weight).sum(), leaves, retain_graph=True
            )
            total = grads if total is None else list(map(torch.add, total, grads))
        return total[here]

    def leaf():
        return shards[here].clone().requires_grad_(asked[here])

    x = leaf()
    (concat.all_gather_cat(x, dim, group) * weights[here]).sum().backward()
    if asked[here] and not same(x.grad, oracle(weights)):
        wrong.append("all_gather_cat")
    x = leaf()
    full = concat.gather_cat(x, root, dim, group)
    (full * (weights[here] if me == root else 1)).sum().backward()
    if asked[here] and not same(x.grad, oracle([weights[members.index(root)]])):
        wrong.append("gather_cat")
    whole = expected.clone().requires_grad_()
    piece = concat.scatter_chunks(whole if me == root else None, root, dim, group)
    parts = weights[0].tensor_split(len(members), dim)
    (piece * parts[here]).sum().backward()
    if me == root and not same(whole.grad, weights[0]):
        wrong.append("scatter_chunks")
    whole = expected.clone().requires_grad_()
    got = concat.broadcast_tensor(whole if me == root else None, root, group)
    (got * weights[here]).sum().backward()
    if me == root:
        total = weights[0].clone()
        for weight in weights[1:]:
            total += weight
        if not same(whole.grad, total):
            wrong.append("broadcast_tensor")
    x = leaf()
    every = concat.all_gather_list([x], group)
    sum((a.to(x.dtype) ** 2).sum() for a in every if a.requires_grad).backward()
    grads = 2 * shards[here]
    total = grads.clone()
    for _ in members[1:]:
        total += grads
    if asked[here] and not same(x.grad, total):
        wrong.append("all_gather_list")
    return wrong
