"""Rules on the buffers into which a collective writes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from course_utils.read.finding import Finding
from course_utils.read.ranks import depends, names_rank
from course_utils.read.source import Source, argument, assigned, last_name

LISTS = {  # the argument that is a list with a buffer for every rank
    "all_gather": (0, "tensor_list"),
    "gather": (1, "gather_list"),
    "all_to_all": (0, "output_tensor_list"),
}
INPUT = {"all_gather": (1, "tensor"), "gather": (0, "tensor")}
LIKE = ("empty_like", "zeros_like", "ones_like", "empty", "zeros", "ones")
PIECES = ("chunk", "split", "tensor_split", "array_split")


def aliased(source: Source) -> Iterator[Finding]:
    """A list made by ``[t] * n`` holds one tensor n times."""
    for scope in source.scopes:
        known = assigned(scope)
        for call, made in with_buffers(source, scope, known):
            if repeats_tensor(made):
                yield Finding(
                    made.lineno,
                    "alias",
                    f"{ast.unparse(made)} is one tensor, again and again, so all "
                    f"pieces of {source.collective(call)} land in the same memory",
                    "make one for each rank: [torch.empty_like(t) for _ in range(n)]",
                )


def with_buffers(source, scope, known) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Yield the calls that take a list of buffers, and how that list was made last."""
    for call in source.collectives(scope.body):
        where = LISTS.get(source.collective(call))
        given = argument(call, *where) if where else None
        if isinstance(given, ast.Name):
            made = [v for v in known.get(given.id, []) if v.lineno <= call.lineno]
            given = made[-1] if made else None
        if given is not None:
            yield call, given


def repeats_tensor(made: ast.expr) -> bool:
    """Tell whether an expression is ``[tensor] * n``."""
    if not isinstance(made, ast.BinOp) or not isinstance(made.op, ast.Mult):
        return False
    sides = [s for s in (made.left, made.right) if isinstance(s, ast.List)]
    elements = sides[0].elts if len(sides) == 1 else []
    return any(not isinstance(element, ast.Constant) for element in elements)


def uneven(source: Source) -> Iterator[Finding]:
    """Buffers of the size of one's own shard, where shards differ in size."""
    for scope in source.scopes:
        known = source.known(scope)
        for call, made in with_buffers(source, scope, known):
            given = argument(call, *INPUT.get(source.collective(call), (99, "")))
            if not isinstance(given, ast.Name) or given.id not in known:
                continue
            shard = known[given.id][-1]
            if of_own_size(made, given.id) and differs_in_size(shard, known):
                yield Finding(
                    made.lineno,
                    "uneven",
                    f"every buffer is as large as {given.id}, whose size differs from "
                    f"rank to rank (line {shard.lineno})",
                    "gather the sizes first, and make each buffer as large as it has "
                    "to be, or pad",
                )


def of_own_size(made: ast.expr, shard: str) -> bool:
    """Tell whether buffers are made as large as a tensor."""
    for node in ast.walk(made):
        if isinstance(node, ast.Call) and last_name(node.func) in LIKE:
            inside = [n for part in node.args for n in ast.walk(part)]
            if any(isinstance(n, ast.Name) and n.id == shard for n in inside):
                return True
    return False


def differs_in_size(made: ast.expr, known: dict[str, list[ast.expr]]) -> bool:
    """Tell whether a tensor has another size on each rank, as ``x[rank::n]`` may."""
    if isinstance(made, ast.Subscript):
        cut = last_name(made.value.func) if isinstance(made.value, ast.Call) else ""
        if cut in PIECES:
            return names_rank(made.slice)
        return isinstance(made.slice, ast.Slice) and depends(made, known)
    if isinstance(made, ast.Call) and last_name(made.func) in (*LIKE, "arange", "rand"):
        return any(depends(size, known) for size in made.args)
    return False
