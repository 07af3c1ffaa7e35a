"""Exchange what the ranks are about to do, and raise one error where they disagree."""

from __future__ import annotations

from typing import Any

from torch import distributed as dist

from course_utils.guard.arguments import OPERATIONS
from course_utils.guard.differences import agreed, differing, disagreement, ungrouped
from course_utils.guard.exchange import box_of, exchanged
from course_utils.guard.known import Known
from course_utils.guard.pieces import MODULUS, pieces, unbalanced
from course_utils.guard.record import (
    ALONE,
    OF_ROOT,
    PLAIN,
    Record,
    caller,
    read,
    record,
)
from course_utils.text import indent, these_ranks

MOST = 4  # different problems that an error names


class CollectiveError(RuntimeError):
    """The ranks disagree on a collective, or one of them calls it wrongly."""


def compare(
    name: str, given: dict[str, Any], group: dist.ProcessGroup, misfit: str = ""
) -> bytes:
    """Exchange what the ranks are about to do; raise CollectiveError on all if
    they disagree.

    misfit: why this rank's arguments do not fit the collective's parameters, if so.
    Returns what this rank told.
    """
    mine, wrong = record(name, given, dist.get_process_group_ranks(group), misfit)
    rows = exchanged(mine, group, box_of(group)) or [mine] * group.size()
    if not agreed(rows):
        settle(name, given, group, rows, wrong)
    return mine


def confirm(name: str, group: dist.ProcessGroup, known: Known) -> None:
    """Do as `compare` does, with what this rank told of a call like this one.

    What waits in either is reported by its `name`, `given` and `group`, see `stuck`.
    """
    given = known.given
    if rows := exchanged(known.row, group, known.box):
        settle(name, given, group, rows)


def settle(
    name: str,
    given: dict[str, Any],
    group: dist.ProcessGroup,
    rows: list[bytes],
    wrong: str = "",
) -> None:
    """Raise CollectiveError on all ranks if their records disagree.

    rows: of all ranks, and the same on all; wrong: of this one, see `record`.
    """
    ranks = dist.get_process_group_ranks(group)

    def heard(mine: Any) -> dict[int, Any]:
        """Return what each rank has to say that the numbers do not tell."""
        said = [None] * len(ranks)
        dist.distributed_c10d.all_gather_object(said, mine, group=group)
        return dict(zip(ranks, said, strict=True))

    said = heard((*caller(), wrong))
    every = {
        rank: read(row)._replace(line=said[rank][0], file=said[rank][1])
        for rank, row in zip(ranks, rows, strict=True)
    }
    text = verdict(every)
    if text is None:
        text = told(every, {rank: words for rank, (_, _, words) in said.items()})
    elif not text and sum(one.balance for one in every.values()) % MODULUS:
        text = unbalanced(name, heard(pieces(name, given, len(ranks))))
    text = text or ungrouped(every)
    if text:
        raise CollectiveError(text)


def verdict(every: dict[int, Record]) -> str | None:
    """Say what the ranks disagree on, from their records; "" for nothing.

    None: a rank does something wrong that it has to put into words itself.
    """
    kinds = {one.wrong for one in every.values()}
    if kinds == {PLAIN} and len({one.operation for one in every.values()}) == 1:
        return ""  # torch says it, on every rank
    if kinds & {ALONE, PLAIN}:
        return None
    columns = differing(every)
    if OF_ROOT in kinds and not {"operation", "root"} & set(columns):
        return None
    return disagreement(every, columns) if columns else ""


def told(every: dict[int, Record], words: dict[int, str]) -> str:
    """Say which ranks call a collective wrongly, and how."""
    who: dict[tuple[str, str], list[int]] = {}
    for rank, said in words.items():
        if said:
            who.setdefault((OPERATIONS[every[rank].operation], said), []).append(rank)
    (name, said), ranks = next(iter(who.items()))
    lines = [f"{name} did not run: {these_ranks(ranks)} {said}"]
    for (_, said), ranks in [*who.items()][1:MOST]:
        lines += indent(f"{these_ranks(ranks)} {said}")
    if len(who) > MOST:
        lines += indent(f"and {len(who) - MOST} more")
    return "\n".join(lines)
