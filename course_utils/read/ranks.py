"""Which expressions differ from rank to rank."""

from __future__ import annotations

import ast
import re
from functools import partial

from course_utils.read.source import last_name

RANK = re.compile(r"(global_|local_|world_|node_|proc_|my_|dist_|dp_)?_?rank(_id)?")
FIRST = re.compile(r"_?(is_)?(global_|local_|world_)?(main|master|rank_?(0|zero)|chief)"
                   r"(_(process|proc|node|rank))?")  # fmt: skip
ASKED = ("get_rank", "get_local_rank", "get_global_rank", "get_node_local_rank")
VARIABLES = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
MOST = 3  # values of a name that are followed
KEPT = ("int", "bool", "len", "range", "min", "max", "list", "tuple", "enumerate")


def names_rank(node: ast.AST) -> bool:
    """Tell whether a name or call means the rank, or whether this is the first one."""
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        return name in ASKED or bool(FIRST.fullmatch(name)) or variable(node)
    if isinstance(node, ast.Subscript):
        return variable(node)
    name = last_name(node)
    if name.isupper():
        return name in VARIABLES
    return bool(RANK.fullmatch(name) or ("is_" in name and FIRST.fullmatch(name)))


def variable(node: ast.AST) -> bool:
    """Tell whether a node reads a rank from the environment."""
    read = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
    names = {last_name(n) for n in ast.walk(node)}
    return bool(names & {"environ", "getenv"} and read & {*VARIABLES})


def depends(
    node: ast.AST | None, known: dict[str, list[ast.expr]], depth: int = 4
) -> bool:
    """Tell whether an expression surely depends on the rank.

    known: what names are set to. Nothing is followed through calls of functions.
    """
    if node is None or depth == 0 or uniform(node):
        return False
    if names_rank(node):
        return True
    follow = partial(depends, known=known, depth=depth)
    match node:
        case ast.Name(id=name):
            values = known.get(name, [])
            deeper = partial(depends, known=known, depth=depth - 1)
            return 0 < len(values) <= MOST and all(map(deeper, values))
        case ast.BoolOp(op=ast.Or(), values=values):
            return all(map(follow, values))
        case ast.BoolOp(values=values):
            return any(map(follow, values))
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[among]):
            return isinstance(among, ast.Tuple | ast.List) and follow(left)
        case ast.Compare(left=left, comparators=others):
            return any(map(follow, (left, *others)))
        case ast.BinOp(left=left, right=right):
            return follow(left) or follow(right)
        case ast.UnaryOp(operand=operand):
            return follow(operand)
        case ast.Subscript(value=value, slice=ast.Slice(lower, upper, step)):
            if lower is not None and upper is not None:
                return False  # x[rank * n : (rank + 1) * n] is as long on every rank
            return (step is not None and follow(lower)) or follow(value)
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in KEPT:
            return any(map(follow, arguments))
    return False


def uniform(node: ast.AST) -> bool:
    """Tell whether a test on a rank asks only whether there are ranks at all.

    As ``rank is None``, ``local_rank != -1`` and ``rank >= 0`` do.
    """
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return False
    other, op = node.comparators[0], node.ops[0]
    if isinstance(op, ast.Is | ast.IsNot):
        return True
    value = constant(other)
    if value is None:
        return isinstance(other, ast.Constant)
    at_zero = isinstance(op, ast.GtE | ast.Lt) and value == 0
    return value < 0 or at_zero


def constant(node: ast.AST) -> float | None:
    """Return the number that a node writes; None if it writes none."""
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, sign = node.operand, -1
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return sign * node.value
    return None
