"""Run a learner's function on this rank, in one case of an exercise."""

from __future__ import annotations

import ast
import linecache
import os
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from glob import escape, glob
from types import TracebackType
from typing import Any

from IPython import get_ipython
from torch import distributed as dist

from course_utils import concat
from course_utils.exercises.answers import Answer, Case
from course_utils.exercises.evidence import cell_of, changes, doings, outside
from course_utils.exercises.exercise import Exercise
from course_utils.exercises.lessons import find
from course_utils.exercises.set_orders import sets_in_order_of, with_set_calls
from course_utils.exercises.values import addresses, copied, first_place, plain, same
from course_utils.guard import WRAPPER
from course_utils.measure import Memory, peak_memory
from course_utils.replay import LIBRARY, WRAPPERS, recorded
from course_utils.stuck import RankState, members
from course_utils.text import indent, is_cell, readable
from course_utils.world import short_traceback

PEERS = ("src", "dst", "group_src", "group_dst")
SOURCE_WIDTH = 44  # of the line of source that a rank waits in
MESSAGE_LINES, MESSAGE_WIDTH = 8, 200  # of an error that an answer shows
LEFT_ALONE = re.compile(
    r"timed? ?out|monitoredBarrier|closed by peer|reset by peer", re.I
)


def survey(name: str) -> str:
    """Tell whether this rank has a function `name`: "missing", "ready" or a type."""
    names = get_ipython().user_ns
    if name not in names:
        return "missing"
    return "ready" if callable(names[name]) else type(names[name]).__name__


def attempt(exercise_id: str, case: Case, path: str, again: bool = False) -> Answer:
    """Call the learner's function with fresh inputs; return what came of it.

    path: of a file that does not exist yet, the same on every rank.
    again: call it twice with the same inputs; the second call counts.
    """
    exercise, rank = find(exercise_id), int(os.environ["RANK"])
    function = get_ipython().user_ns[exercise.function]
    inputs = exercise.inputs(case, path)
    given = copied(inputs[rank])
    measuring = peak_memory() if exercise.measured else nullcontext(Memory())
    orders = nullcontext()
    if exercise.unordered:
        orders = sets_in_order_of(rank)
        function = with_set_calls(function, cell_of(function))
    with orders:
        if again and outcome_of(function, given)["state"] != "returned":
            return Answer(
                "raised", error="the first call failed, which was right before"
            )
        with measuring as memory, recorded() as made, doings() as did:
            outcome = outcome_of(function, given)
    expected = exercise.oracle(case, inputs)[rank]
    facts = {
        "inputs": plain(inputs[rank]),
        "expected": plain(expected),
        "calls": tuple(made),
        "tried": tuple(did.tried),
        "pending": did.pending(),
        "changed": changes(inputs[rank], given),
        "outside": outside(function),
        "source": cell_of(function),
        "after": groups_after(path),
        "peak": memory.peak,
    }
    if outcome["state"] == "returned":
        facts |= judged(exercise, expected, outcome.pop("yours"), given)
        facts["right"] = facts["right"] and not facts["changed"]
    return Answer(**outcome, **facts)


def outcome_of(function: Callable, given: tuple) -> dict[str, Any]:
    """Call a function; return its result, or how it failed."""
    try:
        return {"state": "returned", "yours": function(*given)}
    except BaseException as error:  # SystemExit and interrupts are answers, too
        return failure(error)


def judged(exercise: Exercise, expected: Any, yours: Any, given: tuple) -> dict:
    """Compare a result with the expected one, in value and in memory."""
    items = yours if isinstance(yours, (list, tuple)) else []
    memory = [set(addresses(item)) for item in items]
    aliases = tuple(
        (i, j) for j in range(len(memory)) for i in range(j) if memory[i] & memory[j]
    )
    shares = not exercise.may_share and bool(
        set(addresses(yours)) & set(addresses(given))
    )
    right = same(expected, yours, exercise.tolerance) and not aliases and not shares
    return {
        "right": right,
        "yours": plain(yours),
        "aliases": aliases,
        "shares": shares,
        "differs": None if right else first_place(expected, yours),
        "seen": exercise.look(yours, expected) if exercise.look else {},
    }


def failure(error: BaseException) -> dict[str, Any]:
    """Describe an exception: of the learner's line, or of a wait that was in vain."""
    waiting, place = whereabouts(error.__traceback__)
    if isinstance(error, KeyboardInterrupt):
        if not waiting.call:
            return {"state": "looped", "place": loop(error.__traceback__) or place}
        return waited(waiting, place)
    if isinstance(error, RuntimeError) and LEFT_ALONE.search(str(error)):
        return waited(waiting, place)
    places = short_traceback(type(error), error)
    first = " ".join([type(error).__name__, *places[:1]])
    message = [line[:MESSAGE_WIDTH] for line in readable(str(error)).split("\n")]
    more = indent("\n".join([*places[1:], *message[:MESSAGE_LINES]]).rstrip())
    return {"state": "raised", "error": "\n".join(filter(None, [first, *more]))}


def waited(waiting: RankState, place: str) -> dict[str, Any]:
    """Describe a wait that was in vain."""
    if not waiting.call:
        known = [n for n in ("wait", "backward") if f".{n}(" in place]
        call = known[0] if known else "a collective"
        waiting = replace(waiting, call=call)
    return {"state": "waited", "waiting": waiting, "place": place}


def whereabouts(tb: TracebackType | None) -> tuple[RankState, str]:
    """Return the call of torch.distributed in a traceback, and the cell's line."""
    place, call, inner = "", "", None
    lines: dict[str, list[int]] = {}
    while tb is not None:
        filename, names = tb.tb_frame.f_code.co_filename, tb.tb_frame.f_locals
        if filename == WRAPPER or filename == LIBRARY:
            call, inner = tb.tb_frame.f_code.co_name, tb.tb_frame
            break
        if tb.tb_frame.f_code.co_name in concat.__all__:
            call = call or tb.tb_frame.f_code.co_name
        if filename == WRAPPERS and "func" in names:
            call = names["func"].__name__  # as good as in it
        if is_cell(filename):
            line = linecache.getline(filename, tb.tb_lineno).strip()
            place = f"at line {tb.tb_lineno}: {cut(line)}"
            lines.setdefault(filename, []).append(tb.tb_lineno)
        tb = tb.tb_next
    first = next(iter(lines.values()), [0])  # of the cell that defines the function
    given = inner.f_locals.get("given", inner.f_locals) if inner else {}
    peers = {n: given[n] for n in PEERS if type(given.get(n)) is int}
    group = members(given.get("group"))
    state = RankState(
        "waits",
        call=call,
        peers=peers,
        group=tuple(group) if group else None,
        line=first[-1],
        outer=first[0],
    )
    return state, place


def loop(tb: TracebackType | None) -> str:
    """Say where the outermost loop stands that was interrupted."""
    while tb is not None and not is_cell(tb.tb_frame.f_code.co_filename):
        tb = tb.tb_next
    if tb is None:
        return ""
    lines = linecache.getlines(tb.tb_frame.f_code.co_filename)
    try:
        nodes = list(ast.walk(ast.parse("".join(lines))))
    except SyntaxError:  # the cell has a magic in it
        return ""
    first = min(
        (
            node.lineno
            for node in nodes
            if isinstance(node, (ast.For, ast.While))
            and node.lineno <= tb.tb_lineno <= node.end_lineno
        ),
        default=0,
    )
    return f"at line {first}: {cut(lines[first - 1].strip())}" if first else ""


def cut(line: str) -> str:
    """Shorten a line of source that is too long for a verdict."""
    return line if len(line) <= SOURCE_WIDTH else f"{line[: SOURCE_WIDTH - 1]}…"


def groups_after(path: str) -> dict[str, Any]:
    """Tell which process groups are up on this rank, and whether they met at `path`."""
    if not dist.is_initialized():
        return {"initialised": False}
    world = dist.distributed_c10d._world
    others = [g for g in world.pg_group_ranks if g is not dist.group.WORLD]
    return {
        "initialised": True,
        "met": bool(glob(f"{escape(path)}*")),
        "groups": [tuple(sorted(world.pg_group_ranks[group])) for group in others],
    }
