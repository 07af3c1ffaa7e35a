"""Branches and loops by which some ranks do not come to a line.

The report of a stuck cell and the reader share what stands here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from course_utils.read.ranks import depends
from course_utils.read.source import FUNCTIONS, WHOLE_WORLD, assigned, blocks

LEAVING = (ast.Return, ast.Break, ast.Continue)
Statement = ast.If | ast.For | ast.While


def parsed(source: str) -> ast.Module | None:
    """Return the tree of a source; None where it is no plain Python."""
    try:
        return ast.parse(source)
    except SyntaxError:  # a magic in the cell
        return None


def responsible(source: str, line: int) -> tuple[Statement | None, bool]:
    """Return the statement that keeps some ranks from coming to a line.

    The innermost branch on the rank if there is one, or else the innermost branch, or
    else the innermost loop; and whether it is a branch on the rank.
    """
    tree = parsed(source)
    if tree is None:
        return None, False
    around = enclosing(tree, line)
    branches = [n for n in around if isinstance(n, ast.If) and not is_start(n)]
    known = assigned(tree) | assigned(function_at(tree, line))
    on_rank = [n for n in branches if depends(n.test, known)]
    loops = [n for n in around if not isinstance(n, ast.If)]
    return next(iter(on_rank + branches + loops), None), bool(on_rank)


def enclosing(tree: ast.AST, line: int) -> list[Statement]:
    """Return the branches and loops around a line, innermost first."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If | ast.For | ast.While)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return sorted(around, key=lambda node: (node.lineno, node.col_offset), reverse=True)


def function_at(tree: ast.Module, line: int) -> ast.AST:
    """Return the innermost function around a line, or the module."""
    found: ast.AST = tree
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS) and node.lineno <= line <= node.end_lineno:
            found = node
    return found


def is_start(branch: ast.If) -> bool:
    """Tell whether a branch is ``if __name__ == "__main__":``."""
    return "__name__" in ast.unparse(branch.test)


def condition(branch: ast.If, line: int) -> str:
    """Write the condition under which a line of a branch runs."""
    test = ast.unparse(branch.test)
    if branch.orelse and line >= branch.orelse[0].lineno:
        return f"the else of `if {test}:`"
    return f"`if {test}:`"


def never_came(call: str) -> str:
    """Say what ranks left out, and who has to call it."""
    if "." in call or call.startswith("wait"):  # work.wait() and the like
        return "took no part in what is waited for"
    who = "every rank" if call in WHOLE_WORLD else "every rank of the group"
    return f"never came to {call}; {who} has to call it"


def leaves_before(source: str, line: int) -> ast.If | None:
    """Return the branch on the rank by which some ranks leave before a line."""
    tree = parsed(source)
    if tree is None:
        return None
    scope = function_at(tree, line)
    known = assigned(tree) | assigned(scope)
    for block in blocks(scope):
        for at, statement in enumerate(block):
            if statement.lineno <= line <= (statement.end_lineno or 0):
                before = list(leaving(block[:at], known))
                caught = caught_before(statement, line, known)
                if before or caught:
                    return [*before, *caught][-1]
    return None


def leaving(
    statements: Iterable[ast.stmt], known: dict[str, list[ast.expr]]
) -> Iterable[ast.If]:
    """Yield the branches on the rank that end what stands behind them."""
    for node in statements:
        if isinstance(node, ast.If) and depends(node.test, known):
            if isinstance(node.body[-1], LEAVING) and not node.orelse:
                yield node


def caught_before(
    statement: ast.stmt, line: int, known: dict[str, list[ast.expr]]
) -> list[ast.If]:
    """Return the branches on the rank whose error skips a line, and is caught."""
    if not isinstance(statement, ast.Try) or not statement.handlers:
        return []
    if any(isinstance(n, ast.Raise) for h in statement.handlers for n in ast.walk(h)):
        return []
    return [
        node
        for node in statement.body
        if isinstance(node, ast.If) and (node.end_lineno or 0) < line
        if isinstance(node.body[-1], ast.Raise) and depends(node.test, known)
    ]
