"""Rules on single calls: devices, waiting, roots of sub-groups, objects."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from course_utils.read.finding import Finding
from course_utils.read.source import Source, argument, assigned, last_name, nodes

MOVES = ("to", "cuda", "set_device", "device")
ASYNC = ("isend", "irecv")
OBJECTS = ("all_gather_object", "gather_object", "broadcast_object_list",
           "scatter_object_list", "send_object_list")  # fmt: skip
UNTRUSTED = ("input", "urlopen", "recv", "recvfrom")
REQUESTS = ("requests", "httpx", "urllib")
PLAIN = ("bool", "float", "int", "json", "len", "ok", "status_code", "str", "text")


def device(source: Source) -> Iterator[Finding]:
    """The global rank as a device, unless all ranks are on one machine."""
    spawns = any(
        isinstance(n, ast.Call) and last_name(n.func) == "spawn"
        for n in ast.walk(source.tree)
    )
    for scope in [] if spawns else source.scopes:
        known = source.known(scope)
        for node in nodes(scope.body):
            if isinstance(node, ast.Call) and last_name(node.func) in MOVES:
                for given in node.args:
                    if is_global_rank(given, source, known):
                        yield Finding(
                            node.lineno,
                            "device",
                            f"{ast.unparse(node)} takes the rank as a device, which "
                            "the second machine does not have",
                            'take int(os.environ["LOCAL_RANK"])',
                        )


def is_global_rank(node: ast.expr, source: Source, known: dict) -> bool:
    """Tell whether an expression is the rank among all ranks, as a device or string."""
    if isinstance(node, ast.JoinedStr):
        parts = [v.value for v in node.values if isinstance(v, ast.FormattedValue)]
        return "cuda" in ast.unparse(node) and any(
            is_global_rank(part, source, known) for part in parts
        )
    if isinstance(node, ast.Name) and "local" not in node.id:
        made = known.get(node.id, [])
        return bool(made) and all(asks_rank(value, source) for value in made)
    return asks_rank(node, source)


def asks_rank(node: ast.expr, source: Source) -> bool:
    """Tell whether an expression asks for the rank among all ranks."""
    if isinstance(node, ast.Call) and last_name(node.func) == "int" and node.args:
        return asks_rank(node.args[0], source)
    if source.called(node) == "get_rank":
        return not node.args and not node.keywords
    return ast.unparse(node).startswith("os.environ") and "'RANK'" in ast.unparse(node)


def unwaited(source: Source) -> Iterator[Finding]:
    """Async work for which nobody waits."""
    for scope in source.scopes:
        read = {
            n.id
            for n in ast.walk(scope)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
        }
        for node in nodes(scope.body):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                dropped = node.targets[0].id not in read and not in_outer(scope, node)
            else:
                dropped = isinstance(node, ast.Expr)
            if dropped and begins_work(source, node.value):
                name = source.called(node.value)
                yield Finding(
                    node.lineno,
                    "wait",
                    f"nobody waits for this {name}, so its tensors may change, or be "
                    "read, while it still runs",
                    "keep the work that it returns, and call its wait()",
                )


def in_outer(scope: ast.AST, node: ast.Assign) -> bool:
    """Tell whether a function sets a name of the module or of a function around it."""
    names = [n for s in nodes(scope.body) if isinstance(s, ast.Global | ast.Nonlocal)
             for n in s.names]  # fmt: skip
    return isinstance(scope, ast.Module) or node.targets[0].id in names


def begins_work(source: Source, call: ast.expr) -> bool:
    """Tell whether an expression begins async work."""
    name = source.called(call)
    if name in ASYNC:
        return True
    asked = source.collective(call) and argument(call, 99, "async_op")
    return isinstance(asked, ast.Constant) and asked.value is True


def group_root(source: Source) -> Iterator[Finding]:
    """A root that is no rank of the sub-group, or is counted within it."""
    for scope in source.scopes:
        known = source.known(scope)
        for call in source.collectives(scope.body):
            group, name = argument(call, 99, "group"), source.collective(call)
            root = argument(call, 99, "src") or argument(call, 99, "dst")
            if root is None or not isinstance(group, ast.Name):
                continue
            wrong = outside(root, members(group, source, known))
            if wrong or counted_within(root, source):
                yield Finding(
                    call.lineno,
                    "root",
                    f"src and dst of {name} are ranks of the world, and "
                    f"{ast.unparse(root)} is none of {group.id}",
                    "name the root by group_src or group_dst, or translate it with "
                    "dist.get_global_rank",
                )


def members(group: ast.Name, source: Source, known: dict) -> list[int] | None:
    """Return the ranks of a group that the source writes out; None if it does not."""
    made = known.get(group.id, [])
    if len(made) != 1 or source.called(made[0]) != "new_group":
        return None
    given = argument(made[0], 0, "ranks")
    try:
        return list(ast.literal_eval(given)) if given is not None else None
    except (ValueError, TypeError):
        return None


def outside(root: ast.expr, ranks: list[int] | None) -> bool:
    """Tell whether a root that is written out is none of the ranks."""
    if ranks is None or not isinstance(root, ast.Constant):
        return False
    return isinstance(root.value, int) and root.value not in ranks


def counted_within(root: ast.expr, source: Source) -> bool:
    """Tell whether a root is a rank within a group."""
    asked = source.called(root)
    return asked == "get_group_rank" or (
        asked == "get_rank" and bool(root.args or root.keywords)
    )


def untrusted(source: Source) -> Iterator[Finding]:
    """An object from outside, sent by a call that unpickles on every rank."""
    for scope in source.scopes:
        known = assigned(scope)
        for node in nodes(scope.body):
            if source.called(node) not in OBJECTS:
                continue
            given = [n for a in node.args for n in pickled(a)]
            given += [v for n in given if isinstance(n, ast.Name)
                      for v in known.get(n.id, [])]  # fmt: skip
            if any(from_outside(n) for value in given for n in pickled(value)):
                yield Finding(
                    node.lineno,
                    "objects",
                    f"{source.called(node)} pickles what came from outside, and every "
                    "rank unpickles it",
                    "check it, and send tensors or plain text",
                )


def pickled(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of an expression, but none of what is plain text or a number."""
    if isinstance(node, ast.Call) and last_name(node.func) in PLAIN:
        return
    if isinstance(node, ast.Attribute) and node.attr in PLAIN:
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from pickled(child)


def from_outside(node: ast.AST) -> bool:
    """Tell whether a node reads pickled or other data from outside the program."""
    if not isinstance(node, ast.Call):
        return False
    text, name = ast.unparse(node.func), last_name(node.func)
    return (
        name in UNTRUSTED
        or text.split(".")[0] in REQUESTS
        or text in ("pickle.load", "pickle.loads", "sys.stdin.read")
    )
