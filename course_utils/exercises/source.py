"""What the source of a function says: what it returns, drops, and has as numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

FILLS = {  # collectives that return None, and what they fill
    "all_gather": "the list that it gets",
    "all_gather_object": "the list that it gets",
    "all_gather_single": "the tensor that it gets first",
    "all_gather_into_tensor": "the tensor that it gets first",
    "all_reduce": "the tensor that it gets, in place",
    "all_to_all_single": "the tensor that it gets first",
    "broadcast": "the tensor that it gets, in place",
    "broadcast_object_list": "the list that it gets",
    "gather": "the list of the root",
    "gather_object": "the list of the root",
    "reduce": "the tensor of the root, in place",
    "scatter": "the tensor that it gets first",
    "barrier": "nothing",
    "backward": "`.grad` of the leaves",
}
BEGIN = ("isend", "irecv", "batch_isend_irecv")  # these return work to wait for
Function = ast.FunctionDef


@lru_cache(maxsize=8)
def function(source: str, name: str) -> Function | None:
    """Return the last definition of a function in a cell; None if it is unknown."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a magic in the cell
        return None
    found = [n for n in ast.walk(tree) if isinstance(n, Function) and n.name == name]
    return found[-1] if found else None


def is_empty(node: Function) -> bool:
    """Tell whether a function is a stub: a docstring, and None for a result."""
    return all(
        isinstance(step, ast.Pass)
        or (isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant))
        or (isinstance(step, ast.Return) and nothing(step.value))
        for step in node.body
    )


def nothing(value: ast.expr | None) -> bool:
    """Tell whether an expression is None, or missing."""
    return value is None or isinstance(value, ast.Constant) and value.value is None


def returns(node: Function) -> list[ast.expr]:
    """Return what the `return` statements of a function give, but None."""
    found = [n.value for n in own(node) if isinstance(n, ast.Return)]
    return [value for value in found if not nothing(value)]


def own(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what stands in a function, but not in the functions inside it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (Function, ast.Lambda)):
            yield from own(child)


def called(value: ast.AST | None) -> str:
    """Return the name of the function that an expression calls; "" for none."""
    if not isinstance(value, ast.Call):
        return ""
    made = value.func
    return made.attr if isinstance(made, ast.Attribute) else getattr(made, "id", "")


def is_async(value: ast.AST) -> bool:
    """Tell whether an expression begins a call that goes on by itself."""
    if called(value) in BEGIN:
        return True
    given = value.keywords if isinstance(value, ast.Call) else []
    return any(k.arg == "async_op" and not nothing(k.value) for k in given)


def none_of(node: Function) -> str:
    """Return the collective whose own result, None, a function returns."""
    held = {
        target.id: called(step.value)
        for step in ast.walk(node)
        if isinstance(step, ast.Assign) and not is_async(step.value)
        for target in step.targets
        if isinstance(target, ast.Name)
    }
    for value in returns(node):
        name = called(value) or held.get(getattr(value, "id", ""), "")
        if name in FILLS and not is_async(value):
            return name
    return ""


def kept_none(node: Function) -> tuple[str, str]:
    """Return a name that holds the None of a collective, and the collective."""
    for step in ast.walk(node):
        if isinstance(step, ast.Assign) and not is_async(step.value):
            name = called(step.value)
            if name in FILLS and isinstance(step.targets[0], ast.Name):
                return step.targets[0].id, name
    return "", ""


def dropped(node: Function) -> str:
    """Return a call that begins work which nobody can wait for; "" if there is none."""
    waits = any(
        isinstance(n, ast.Attribute) and n.attr in ("wait", "is_completed", "result")
        for n in ast.walk(node)
    )
    for step in ast.walk(node):
        if isinstance(step, ast.Expr) and is_async(step.value):
            return called(step.value)
        if not waits and isinstance(step, ast.Call) and is_async(step):
            return called(step)
    return ""


def numbers(node: Function) -> set[int]:
    """Return the whole numbers that stand in a function."""
    found = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
    return {value for value in found if type(value) is int}


def uses(node: Function | None, *names: str) -> bool:
    """Tell whether a function calls something of one of these names."""
    return node is not None and any(called(n) in names for n in ast.walk(node))
