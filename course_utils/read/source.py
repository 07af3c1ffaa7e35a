"""A source as the rules see it: its tree, its scopes, and its calls of collectives."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

MODULE = "torch.distributed"
COLLECTIVES = {  # and where each has its group, counted from 0
    "all_gather": 2,
    "all_gather_into_tensor": 2,
    "all_gather_object": 2,
    "all_gather_single": 2,
    "all_reduce": 2,
    "all_to_all": 2,
    "all_to_all_single": 4,
    "barrier": 0,
    "broadcast": 2,
    "broadcast_object_list": 2,
    "gather": 3,
    "gather_object": 3,
    "init_process_group": 99,
    "monitored_barrier": 0,
    "new_group": 99,
    "reduce": 3,
    "reduce_scatter": 3,
    "reduce_scatter_single": 3,
    "reduce_scatter_tensor": 3,
    "scatter": 3,
    "scatter_object_list": 3,
}
WHOLE_WORLD = ("new_group", "init_process_group")  # every rank has to call these
MESSAGES = ("send", "recv", "isend", "irecv")
Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
INNER = (*FUNCTIONS, ast.Lambda, ast.ClassDef)


class Source:
    """A parsed source, and the names under which it knows torch.distributed."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self._modules = {MODULE}
        self._functions: dict[str, str] = {}
        self._known: dict[int, dict[str, list[ast.expr]]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._modules |= {a.asname for a in node.names if a.name == MODULE}
            elif isinstance(node, ast.ImportFrom):
                self._take(node)

    def _take(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            name = alias.asname or alias.name
            if node.module == "torch" and alias.name == "distributed":
                self._modules.add(name)
            elif node.module and node.module.startswith(MODULE):
                self._functions[name] = alias.name

    def called(self, node: ast.AST) -> str:
        """Name the function of torch.distributed that a node calls; "" if none."""
        if not isinstance(node, ast.Call):
            return ""
        if isinstance(node.func, ast.Name):
            return self._functions.get(node.func.id, "")
        if isinstance(node.func, ast.Attribute):
            known = dotted(node.func.value) in self._modules
            return node.func.attr if known else ""
        return ""

    def collective(self, node: ast.AST) -> str:
        """Name the collective that a node calls; "" if it calls none."""
        name = self.called(node)
        return name if name in COLLECTIVES else ""

    def collectives(self, within: ast.AST | list[ast.stmt]) -> list[ast.Call]:
        """Return the calls of collectives, in order, without those of inner scopes."""
        return [n for n in nodes(within) if self.collective(n)]

    @cached_property
    def scopes(self) -> list[Scope]:
        """The module and its functions."""
        inner = [n for n in ast.walk(self.tree) if isinstance(n, FUNCTIONS)]
        return [self.tree, *inner]

    def known(self, scope: Scope) -> dict[str, list[ast.expr]]:
        """Return what the names that a scope sees are set to."""
        if id(scope) not in self._known:
            given = parameters(scope)
            outer = {n: v for n, v in self._global.items() if n not in given}
            self._known[id(scope)] = outer | assigned(scope)
        return self._known[id(scope)]

    @cached_property
    def _global(self) -> dict[str, list[ast.expr]]:
        return assigned(self.tree)

    @cached_property
    def functions(self) -> dict[str, ast.AST]:
        """The functions and methods of the source, by name."""
        return {n.name: n for n in ast.walk(self.tree) if isinstance(n, FUNCTIONS)}

    def reaches(self, within: list[ast.stmt], name: str) -> bool:
        """Tell whether statements call a collective, or a function that does."""
        for node in nodes(within):
            if self.collective(node) == name:
                return True
            if isinstance(node, ast.Call):
                called = self.functions.get(last_name(node.func))
                inside = nodes(called.body) if called else ()
                if any(self.collective(n) == name for n in inside):
                    return True
        return False


def nodes(within: ast.AST | list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield nodes in the order of the source, but none of functions defined inside."""
    for node in within if isinstance(within, list) else [within]:
        yield node
        if not isinstance(node, INNER):
            for child in ast.iter_child_nodes(node):
                yield from nodes(child)


def blocks(scope: Scope) -> Iterator[list[ast.stmt]]:
    """Yield every list of statements of a scope, without those of inner scopes."""
    for node in nodes(scope.body):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                yield block
    yield scope.body


def dotted(node: ast.AST) -> str:
    """Return a name with dots, as "torch.distributed"; "" for what is none."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *parts[::-1]]) if isinstance(node, ast.Name) else ""


def last_name(node: ast.AST) -> str:
    """Return the last part of a name, as "rank" of ``self.rank``; "" for others."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def argument(call: ast.Call, place: int, name: str) -> ast.expr | None:
    """Return an argument of a call, by its place or name; None if it is not given."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    starred = any(isinstance(given, ast.Starred) for given in call.args)
    return call.args[place] if len(call.args) > place and not starred else None


def group_of(call: ast.Call, name: str) -> ast.expr | None:
    """Return the group that a collective is given; None for that of all ranks."""
    given = argument(call, COLLECTIVES.get(name, 99), "group")
    is_none = isinstance(given, ast.Constant) and given.value is None
    return None if is_none or last_name(given or call) == "WORLD" else given


def parameters(scope: Scope) -> set[str]:
    """Return the names of a function's parameters, which hide those outside."""
    if not isinstance(scope, FUNCTIONS):
        return set()
    return {n.arg for n in ast.walk(scope.args) if isinstance(n, ast.arg)}


def assigned(scope: Scope) -> dict[str, list[ast.expr]]:
    """Return what the simple names of a scope are set to, in order."""
    found: dict[str, list[ast.expr]] = {}
    for node in nodes(scope.body):
        match node:
            case ast.Assign(
                targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)
            ):
                pairs = zip(names, values, strict=False)
            case ast.Assign(targets=targets, value=value):
                pairs = ((target, value) for target in targets)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                pairs = ((target, value),)
            case ast.NamedExpr(target=target, value=value):
                pairs = ((target, value),)
            case _:
                continue
        for target, value in pairs:
            if isinstance(target, ast.Name):
                found.setdefault(target.id, []).append(value)
    return found
