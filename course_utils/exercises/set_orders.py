"""Give sets another order on every rank, as other processes would.

Text is hashed with a number that each Python process draws for itself, so that sets of
it come in another order in each. Ranks that were forked from one process share it.
"""

from __future__ import annotations

import ast
import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from IPython import get_ipython

from course_utils.exercises import source

NAMES = ("set", "frozenset")
DISPLAYS = (ast.Set, ast.SetComp)


@contextmanager
def sets_in_order_of(rank: int) -> Iterator[None]:
    """Let `set` and `frozenset` in the learner's names have the order of one rank."""
    names = get_ipython().user_ns
    before = {name: names[name] for name in NAMES if name in names}
    for kind in (set, frozenset):
        names.setdefault(kind.__name__, turned(kind, rank))
    try:
        yield
    finally:
        for name in NAMES:
            names.pop(name, None)
        names.update(before)


def turned(kind: type, rank: int) -> type:
    """Return a set whose items begin with another one on every rank."""

    class Turned(kind):
        def __iter__(self):
            items = sorted(super().__iter__(), key=repr)
            first = rank % len(items) if items else 0
            return iter(items[first:] + items[:first])

    Turned.__name__ = kind.__name__
    return Turned


def with_set_calls(function: Callable, cell: str) -> Callable:
    """Return a function of a cell with `set(...)` in the place of ``{...}``."""
    node = source.function(cell, getattr(function, "__name__", ""))
    if node is None or not any(isinstance(n, DISPLAYS) for n in ast.walk(node)):
        return function
    module = ast.Module([Displays().visit(copy.deepcopy(node))], type_ignores=[])
    made: dict[str, Callable] = {}
    code = ast.fix_missing_locations(module)
    exec(compile(code, inspect.getfile(function), "exec"), get_ipython().user_ns, made)
    return made[node.name]


class Displays(ast.NodeTransformer):
    """Write sets as calls."""

    def visit_Set(self, node: ast.Set) -> ast.Call:
        self.generic_visit(node)
        return called(ast.List(node.elts, ast.Load()), node)

    def visit_SetComp(self, node: ast.SetComp) -> ast.Call:
        self.generic_visit(node)
        return called(ast.ListComp(node.elt, node.generators), node)


def called(items: ast.expr, place: ast.expr) -> ast.Call:
    """Return the call of `set` with a list, at the place of another expression."""
    made = ast.Call(ast.Name("set", ast.Load()), [items], [])
    return ast.copy_location(made, place)
