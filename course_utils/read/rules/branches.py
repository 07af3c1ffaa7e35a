"""Rules on branches and loops: a collective to which some ranks do not come."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from course_utils.read.branches import caught_before, condition, leaving, never_came
from course_utils.read.finding import Finding
from course_utils.read.ranks import depends
from course_utils.read.source import (
    Scope,
    Source,
    blocks,
    group_of,
    nodes,
)

SOME = "the other ranks"
OUT = "move the call out of the branch"
BARRIER = "put the barrier behind the branch, where every rank comes by"


def branch(source: Source) -> Iterator[Finding]:
    """A collective under a condition on the rank, whose other branch lacks it."""
    on_rank = list(branches_on_rank(source))
    further = {id(c): t for _, t in on_rank for c in source.collectives([t])}
    for scope, test in on_rank:
        if not source.collectives([test]):
            continue
        rest = list(elsewhere(scope, test))
        for side, other in ((test.body, test.orelse), (test.orelse, test.body)):
            for call in world_calls(source, side):
                name = source.collective(call)
                if further[id(call)] is not test:
                    continue
                if not any(source.reaches(block, name) for block in (other, *rest)):
                    under = condition(test, call.lineno)
                    yield Finding(
                        call.lineno,
                        "branch",
                        f"this stands under {under}, so {SOME} {never_came(name)}",
                        BARRIER if "barrier" in name else OUT,
                    )


def order(source: Source) -> Iterator[Finding]:
    """Both branches of a condition on the rank call the same, in another order."""
    for _, test in branches_on_rank(source):
        one, other = (
            [source.collective(c) for c in world_calls(source, side)]
            for side in (test.body, test.orelse)
        )
        if one != other and sorted(one) == sorted(other):
            yield Finding(
                test.lineno,
                "order",
                f"the branches of {condition(test, test.lineno)} call collectives in a "
                f"different order: {', '.join(one)} and {', '.join(other)}",
                "call them in one order on every rank",
            )


def loop(source: Source) -> Iterator[Finding]:
    """A loop around a collective makes more rounds on some ranks."""
    for scope in source.scopes:
        known = source.known(scope)
        for node in nodes(scope.body):
            if not isinstance(node, ast.For | ast.While):
                continue
            rounds = node.iter if isinstance(node, ast.For) else node.test
            inside = list(world_calls(source, node.body))
            if inside and depends(rounds, known):
                name = source.collective(inside[0])
                yield Finding(
                    node.lineno,
                    "loop",
                    f"the loop makes more rounds on some ranks, and {name} at line "
                    f"{inside[0].lineno} waits for all of them",
                    "let all ranks make as many rounds, some with nothing to give",
                )


def leaving_early(source: Source) -> Iterator[Finding]:
    """Some ranks leave, by return or a caught error, before a collective."""
    for scope in source.scopes:
        known = source.known(scope)
        for block in blocks(scope):
            for at, statement in enumerate(block):
                for call in world_calls(source, [statement]):
                    name = source.collective(call)
                    gone = [*leaving(block[:at], known)]
                    gone += caught_before(statement, call.lineno, known)
                    if gone and not any(source.reaches(t.body, name) for t in gone):
                        yield left(gone[-1], name, call.lineno)
                        break


def left(test: ast.If, name: str, line: int) -> Finding:
    """Say that a branch leaves before a collective at a line."""
    return Finding(
        test.body[-1].lineno,
        "leaving",
        f"under {condition(test, test.lineno)} a rank leaves before {name} at line "
        f"{line}, for which the others wait",
        "let every rank come to the call, and branch behind it",
    )


def branches_on_rank(source: Source) -> Iterator[tuple[Scope, ast.If]]:
    """Yield every branch on the rank, with the scope that it is in."""
    for scope in source.scopes:
        known = source.known(scope)
        for node in nodes(scope.body):
            if isinstance(node, ast.If) and depends(node.test, known):
                yield scope, node


def world_calls(source: Source, block: list[ast.stmt]) -> Iterator[ast.Call]:
    """Yield the collectives in statements that are for all ranks, not for a group."""
    for call in source.collectives(block):
        if group_of(call, source.collective(call)) is None:
            yield call


def elsewhere(scope: Scope, test: ast.If) -> Iterator[list[ast.stmt]]:
    """Yield what may be the other side of a branch: other branches of its scope.

    As in ``if rank > 0: barrier()``, work, ``if rank == 0: barrier()``. And what stands
    behind a branch that leaves.
    """
    inside = {id(node) for node in ast.walk(test)}
    for node in nodes(scope.body):
        if isinstance(node, ast.If) and id(node) not in inside:
            for side in (node.body, node.orelse):
                if not any(child is test for part in side for child in ast.walk(part)):
                    yield side
    for block in blocks(scope):
        if test in block and isinstance(test.body[-1], ast.Return | ast.Continue):
            yield block[block.index(test) + 1 :]
