"""Rules on losses and metrics over all ranks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from course_utils.read.finding import Finding
from course_utils.read.source import Source, argument, last_name, nodes

EVALUATED = re.compile(r"(^|_)(val|valid|validation|test|eval)(_|$|set|data)", re.I)


def gradient(source: Source) -> Iterator[Finding]:
    """The result of all_gather in a loss: no gradient comes back through it."""
    for scope in source.scopes:
        body = list(nodes(scope.body))
        for call in body:
            if source.collective(call) != "all_gather":
                continue
            out = argument(call, 0, "tensor_list")
            if not isinstance(out, ast.Name) or replaced(out.id, body):
                continue
            reached = reaching(out.id, body, call.lineno)
            losses = [
                n
                for n in body
                if isinstance(n, ast.Call)
                and isinstance(n.func, ast.Attribute)
                and n.func.attr == "backward"
                and used(n.func.value) & reached
            ]
            if losses:
                yield Finding(
                    call.lineno,
                    "gradient",
                    f"{out.id} goes into the loss whose backward() is at line "
                    f"{losses[0].lineno}, but all_gather lets no gradient back",
                    "put your own shard back into its place, or gather with a function "
                    "that is differentiable",
                )


def replaced(name: str, body: list[ast.AST]) -> bool:
    """Tell whether an element of a list is set: one's own shard, with its gradient."""
    return any(
        isinstance(n, ast.Subscript)
        and isinstance(n.ctx, ast.Store)
        and last_name(n.value) == name
        for n in body
    )


def reaching(name: str, body: list[ast.AST], line: int) -> set[str]:
    """Return the names that depend on a list after the line that fills it."""
    reached = {name}
    for node in body:
        if isinstance(node, ast.Assign) and node.lineno >= line:
            if used(node.value) & reached and not detached(node.value):
                reached |= {n.id for t in node.targets for n in ast.walk(t)
                            if isinstance(n, ast.Name)}  # fmt: skip
    return reached


def used(node: ast.AST) -> set[str]:
    """Return the names in an expression."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def detached(node: ast.expr) -> bool:
    """Tell whether an expression lets no gradient through in any case."""
    return any(
        isinstance(n, ast.Attribute) and n.attr in ("detach", "item", "data", "tolist")
        for n in ast.walk(node)
    )


def padded(source: Source) -> Iterator[Finding]:
    """A sampler that repeats samples, and a plain mean over them."""
    corrected = any(
        isinstance(n, ast.Call)
        and last_name(n.func) == "len"
        and any(last_name(a) == "dataset" for a in n.args)
        for n in ast.walk(source.tree)
    )
    reduced = any(source.collective(n) == "all_reduce" for n in ast.walk(source.tree))
    for node in ast.walk(source.tree):
        if corrected or not reduced or not isinstance(node, ast.Call):
            continue
        if last_name(node.func) != "DistributedSampler" or not node.args:
            continue
        data, drops = last_name(node.args[0]), argument(node, 99, "drop_last")
        if EVALUATED.search(data) and drops is None:
            yield Finding(
                node.lineno,
                "padded",
                f"the sampler repeats samples of {data} until all shards are equal, "
                "and the mean counts them twice",
                "count correct and all samples without the repeated ones, and divide "
                "the sums",
            )
