"""The exercises of lesson 13, leave the machine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from course_utils.exercises.answers import Attempt, Case, Form, is_list
from course_utils.exercises.exercise import Exercise, Inputs
from course_utils.exercises.lessons.inputs import one_shard
from course_utils.pictures import Snapshot
from course_utils.replay import Call

HOSTS = {  # of each rank, by the size of the world that works it out
    4: ("a", "b", "a", "b"),
    3: ("c", "a", "c", "b", "a", "c"),
    2: ("b", "b", "a"),
    1: ("d", "c", "b", "a", "a"),
}
GATHERS = ("all_gather", "all_gather_single", "all_gather_into_tensor")
LAYOUTS = (2, 1)  # ranks on each host


# --- 13.1 -----------------------------------------------------------------------


def hosts_of_ranks(case: Case, path: str) -> Inputs:
    """Give every rank the same list of hosts."""
    return [(list(HOSTS[case.world_size]),) for _ in range(case.world_size)]


def by_host(case: Case, inputs: Inputs) -> list:
    """Give every rank the ranks, host by host."""
    hosts = HOSTS[case.world_size]
    order = sorted(range(len(hosts)), key=lambda rank: hosts[rank])
    return [order] * case.world_size


def names_for_ranks(attempt: Attempt) -> str | None:
    """Hosts, or text, where ranks are wanted."""
    yours = attempt.yours[0]
    if not is_list(yours) or not yours:
        return None
    if any(is_list(item) for item in yours):
        return "The ranks stand in lists of their own; asked for is one list."
    if all(isinstance(item, str) for item in yours):
        what = "hosts" if set(yours) <= set(attempt.inputs[0][0]) else "text"
        return f"The result has {what} in it; asked for are ranks, as whole numbers."
    return None


def which_order(attempt: Attempt) -> str | None:
    """Another order of the ranks, or not all of them."""
    hosts, order = attempt.inputs[0][0], attempt.expected[0]
    if not is_list(attempt.yours[0]):
        return None
    yours, size = list(attempt.yours[0]), attempt.case.world_size
    if len({repr(value) for value in attempt.yours}) > 1:
        return (
            "The ranks have different orders, which make no ring: the order must not "
            "depend on who works it out."
        )
    if not all(type(item) is int for item in yours):
        return None
    for wrong, why in other_orders(hosts, order):
        if yours == wrong:
            return why
    if sorted(yours) != sorted(order):
        count = len(order)
        if size < count and sorted(yours) == list(range(size)):
            return f"There are {count} hosts in the list; the result has {size} ranks."
        return f"Not every rank from 0 to {count - 1} is there once."
    crossings, least = hops(yours, hosts), hops(order, hosts)
    if crossings > least:
        return f"{crossings} hops of this ring cross a cable; {least} are enough."
    return "The hosts, or the ranks of one host, stand in another order."


def other_orders(hosts: list[str], order: list[int]) -> Iterator[tuple[list[int], str]]:
    """Yield orders that are wrong, and what they are."""
    every = range(len(hosts))
    wrong = {
        "Ranks are counted from 0.": [rank + 1 for rank in order],
        "Each rank's place in the ring stands there; asked for is the rank at each "
        "place.": [order.index(rank) for rank in every],
        "The hosts stand as they come first in the list, not by name.": sorted(
            every, key=lambda rank: hosts.index(hosts[rank])
        ),
        "The hosts stand in reverse.": sorted(
            every, key=lambda rank: hosts[rank], reverse=True
        ),
        "The ranks of one host stand in reverse.": sorted(
            every, key=lambda rank: (hosts[rank], -rank)
        ),
    }
    for why, found in wrong.items():
        yield found, why


def hops(order: list[int], hosts: list[str]) -> int:
    """Count the hops of a ring that lead to another host."""
    following = [*order[1:], order[0]]
    return sum(hosts[a] != hosts[b] for a, b in zip(order, following, strict=True))


# --- 13.2 -----------------------------------------------------------------------


def shard_and_layout(case: Case, path: str) -> Inputs:
    """Give every rank its shard, and the number of ranks on each host."""
    return [(shard, case.per_host) for (shard,) in one_shard(case, path)]


def whole(case: Case, inputs: Inputs) -> list:
    """Give every rank all shards, in rank order."""
    import torch

    return [torch.cat([shard for shard, _ in inputs])] * case.world_size


def crossings(attempt: Attempt) -> str | None:
    """No shard crosses a cable twice."""
    size, per_host = attempt.case.world_size, attempt.case.per_host
    if per_host == 1 or size == per_host:
        return None
    for answer in attempt.answers:
        for call in answer.calls:
            hidden = "object" in call.name or call.name.endswith(("_cat", "_list"))
            if hidden and call.arguments.get("group") is None:
                return f"{call.name} takes all ranks into one group: {AGAIN}"
    if whole_world(attempt):
        return f"The function gathers over all ranks: {AGAIN}"
    needed = size * math.prod(attempt.case.shape) * (size // per_host - 1)
    sent = sum(
        elements_sent(call, rank, attempt.case)
        for rank, answer in enumerate(attempt.answers)
        for call in answer.tried
    )
    if sent > needed:
        return (
            f"{sent / needed:g} times as many elements cross the cables as must: let "
            "each rank send its own shard across, before its host shares what came."
        )
    return None


AGAIN = (
    "its ring carries shards over a cable that the host behind it has already. Make "
    "groups whose ranks are on different hosts, and groups within a host."
)


def whole_world(attempt: Attempt) -> bool:
    """Tell whether a gather runs over all ranks."""
    every = tuple(range(attempt.case.world_size))
    return any(
        call.name in GATHERS and call.arguments.get("group") in (None, every)
        for answer in attempt.answers
        for call in answer.tried
    )


def elements_sent(call: Call, rank: int, case: Case) -> int:
    """Count the elements that a rank sends to other hosts in a call, along a ring."""
    group = call.arguments.get("group")
    group = group if is_list(group) else tuple(range(case.world_size))
    if rank not in group:
        return 0
    own = next(
        (call.arguments[n] for n in ("input_tensor", "tensor") if n in call.arguments),
        None,
    )
    elements = math.prod(own.shape) if isinstance(own, Form) else 0

    def elsewhere(other: int) -> bool:
        return other // case.per_host != rank // case.per_host

    if call.name in GATHERS:
        following = group[(group.index(rank) + 1) % len(group)]
        return elements * (len(group) - 1) * elsewhere(following)
    if call.name in ("send", "isend", "gather"):
        to = call.arguments.get("dst")
        return elements * (to is not None and elsewhere(to))
    if call.name == "broadcast" and call.arguments.get("src") == rank:
        return elements * len({r // case.per_host for r in group if elsewhere(r)})
    return 0


def everyone_calls(attempt: Attempt) -> str | None:
    """new_group is for all ranks, members or not."""
    made = {
        tuple(c.arguments["ranks"] for c in answer.calls if c.name == "new_group")
        for answer in attempt.answers
        if answer.state != "stuck"
    }
    if len(set(map(len, made))) > 1:
        return f"The ranks made different numbers of groups: {EVERYONE}"
    if len(made) > 1:
        return f"The ranks name different groups in one call of new_group: {EVERYONE}"
    return None


EVERYONE = (
    "every rank calls new_group for every group, in one order, whether it is in it or "
    "not."
)


def other_blocks(attempt: Attempt) -> str | None:
    """All shards, in the order in which they came."""
    wrong = attempt.wrong()
    case, shards = attempt.case, [inputs[0].values for inputs in attempt.inputs]
    columns = [
        value
        for column in range(case.per_host)
        for rank in range(column, case.world_size, case.per_host)
        for value in shards[rank]
    ]
    yours = [attempt.yours[rank] for rank in wrong]
    if wrong and all(isinstance(y, Snapshot) and flat(y) == columns for y in yours):
        return (
            "The shards stand as they came: first all local ranks 0, then all local "
            "ranks 1. Bring them into rank order."
        )
    return None


def flat(snapshot: Snapshot) -> list[Any]:
    """Return the values of a tensor, whatever its shape."""
    return list(snapshot.values)


def layouts(shape: tuple[int, ...]) -> tuple[tuple, ...]:
    """Make a case of each number of ranks on a host."""
    return tuple((shape, "int64", None, (), None, False, n) for n in LAYOUTS)


EXERCISES = (
    Exercise(
        "13.1",
        "ring_order",
        inputs=hosts_of_ranks,
        oracle=by_host,
        worlds=(4, 3, 2, 1),
        forms=(names_for_ranks, which_order),
    ),
    Exercise(
        "13.2",
        "gather_by_host",
        inputs=shard_and_layout,
        oracle=whole,
        worlds=(4, 2),
        shards=layouts((2,)) + layouts((3,)),
        rules=(crossings,),
        stops=(everyone_calls, crossings),
        hints=(other_blocks,),
    ),
)
