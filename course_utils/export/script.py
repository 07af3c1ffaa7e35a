"""Turn the cells of a lesson into the parts of a script for torchrun."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass

FAILS = "raises-exception"
LINE = re.compile(r"\bat line (\d+)")  # where a failing cell failed
TABLE = re.compile(r"^  \d+ .* (\d+)$", re.M)  # the same, in the guard's table
SILENT = re.compile(  # calls that return None, so that `show` would be clutter
    r"print|\w+\.backward|dist\.(barrier|\w+_process_group|(all_)?reduce\w*"
    r"|(all_)?gather\w*|all_to_all\w*|scatter\w*|broadcast\w*)(\.unguarded)?"
)
PX = re.compile(r"(?:[ \t]*(?:#.*)?\n)*(%%px\b)")  # a cell that runs on the ranks
MAGIC = re.compile(r"[ \t]*(?:%|!|\?).*|.*\?[ \t]*")  # a line that IPython alone reads
NAMING = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
INDENT = "    "


@dataclass(frozen=True)
class World:
    """What one call of `launch` asks for."""

    world_size: int = 4
    backend: str = "gloo"
    init: bool = True


@dataclass(frozen=True)
class Cell:
    """One code cell of a notebook.

    report: text of the error that it is stored with.
    quiet: whether it has run and is stored without any output.
    """

    name: str
    source: str
    fails: bool = False
    report: str = ""
    quiet: bool = False

    @property
    def on_ranks(self) -> bool:
        """Tell whether the cell runs on the ranks."""
        return PX.match(self.source) is not None

    @property
    def body(self) -> tuple[str, str]:
        """The line of the magic, and what stands below it; comments above are gone."""
        first, _, body = self.source[PX.match(self.source).start(1) :].partition("\n")
        return first, body


class NotForScripts(Exception):
    """A cell, or a statement, that makes sense in a notebook only; says why."""


def launched(source: str) -> World | None:
    """Return what the last call of `launch` in a cell asks for, None without one.

    Raises NotForScripts for arguments that can be known in the notebook only.
    """
    found = None
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "launch":
            try:
                values = [ast.literal_eval(value) for value in node.args]
                named = {k.arg: ast.literal_eval(k.value) for k in node.keywords}
            except ValueError:
                raise NotForScripts("its launch() takes computed arguments") from None
            named |= dict(zip(("world_size",), values, strict=False))
            found = World(
                named.get("world_size", 4),
                named.get("backend") or "gloo",
                named.get("init", True),
            )
    return found


def parsed(source: str) -> ast.Module:
    """Return the syntax tree; raise NotForScripts where IPython is needed."""
    try:
        return ast.parse(source)
    except SyntaxError:
        raise NotForScripts("it is not plain Python") from None


def rank_code(cell: Cell, ranks_of: Callable[[str], list[int]]) -> str:
    """Return the code of a `%%px` cell for a script.

    ranks_of: reads the argument of ``--targets``.
    Raises NotForScripts, with the reason, for a cell that has to be left out.
    """
    first, body = cell.body
    code = plain(body.strip("\n"))
    tree = parsed(code)
    if not tree.body:
        raise NotForScripts("it holds no statement")
    if cell.fails:
        above = 1 + len(body) - len(body.lstrip("\n"))
        kept, rest = before_failure(code, tree, cell.report, above)
        code = unguarded(kept)
        left = comment(f"Left out, since it fails on purpose:\n{rest}")
        code = f"{code}\n{left}"
    else:
        code = unguarded(code if cell.quiet else shown(code, tree))
    words = first.split()[1:]
    if not words:
        return code
    if len(words) != 2 or words[0] not in ("--targets", "-t"):
        raise NotForScripts(f"{first} has options that only a notebook knows")
    chosen = tuple(ranks_of(words[1]))
    return f"if RANK in {chosen}:\n{indented(code)}"


def plain(code: str) -> str:
    """Put comments in the place of lines that IPython alone reads."""
    inside = inside_text(code)
    return "\n".join(
        f"{line[: len(line) - len(line.lstrip())]}pass  # left out: {line.strip()}"
        if MAGIC.fullmatch(line) and number not in inside
        else line
        for number, line in enumerate(code.split("\n"), start=1)
    )


def names_only(cell: Cell) -> str:
    """Return the imports, functions and classes of a cell that is left out.

    Cells further down may need them.
    """
    code = plain(cell.body[1])
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return ""
    kept = [node for node in tree.body if isinstance(node, NAMING)]
    return "\n".join(ast.get_source_segment(code, node) for node in kept)


def inside_text(code: str) -> set[int]:
    """Return the lines that go on with a text from the line above."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return set()
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, (ast.Constant, ast.JoinedStr))
        for line in range(node.lineno + 1, (node.end_lineno or 0) + 1)
    }


def before_failure(
    code: str, tree: ast.Module, report: str, above: int
) -> tuple[str, str]:
    """Cut a cell that fails on purpose into what precedes the failure, and the rest.

    above: lines of the cell above the code, which the report counts.
    Raises NotForScripts if nothing does, or if the failure has no known line.
    """
    lines = [int(line) for line in LINE.findall(report) + TABLE.findall(report)]
    if not lines or "died" in report:
        raise NotForScripts("it fails on purpose")
    line = min(lines) - above
    start = max((n.lineno for n in tree.body if n.lineno <= line), default=1)
    rows = code.split("\n")
    kept = "\n".join(rows[: start - 1]).rstrip()
    if not kept:
        raise NotForScripts("it fails on purpose")
    return kept, "\n".join(rows[start - 1 :])


def shown(code: str, tree: ast.Module) -> str:
    """Return the code such that it prints its last value, as a notebook does."""
    last = tree.body[-1]
    if not isinstance(last, ast.Expr):
        return code
    rows = code.split("\n")
    final = "\n".join(rows[last.lineno - 1 : last.end_lineno])
    if returns_none(last.value) or final.endswith(";"):
        return code
    if ";" in rows[last.lineno - 1] and len(tree.body) > 1:
        if tree.body[-2].end_lineno == last.lineno:
            raise NotForScripts("it ends with several statements in one line")
    text = ast.get_source_segment(code, last.value)
    rest = final[final.rindex(text) + len(text) :].rstrip() if text in final else ""
    if len(ast.parse(f"show({text})").body[0].value.args) > 1:
        text = f"({text})"
    rows[last.lineno - 1 : last.end_lineno] = [f"show({text}){rest}"]
    return "\n".join(rows)


def returns_none(value: ast.expr) -> bool:
    """Tell whether an expression is a call that is known to return None."""
    if not isinstance(value, ast.Call):
        return False
    waits = not any(keyword.arg == "async_op" for keyword in value.keywords)
    return waits and SILENT.fullmatch(ast.unparse(value.func)) is not None


def unguarded(code: str) -> str:
    """Return the code without the mark of torch's own functions.

    A script has no guard, so the functions of `torch.distributed` are torch's own.
    Raises NotForScripts for code that compares the two.
    """
    bare = code.replace(".unguarded(", "(")
    if ".unguarded" in bare:
        raise NotForScripts("it is about the guard, which a script has not")
    return bare


def indented(code: str) -> str:
    """Set code in by one level; text that goes over several lines stays as it is."""
    inside = inside_text(code)
    return "\n".join(
        line if number in inside or not line else INDENT + line
        for number, line in enumerate(code.split("\n"), start=1)
    )


def comment(text: str) -> str:
    """Write text as comment lines."""
    return "\n".join(f"# {line}".rstrip() for line in text.rstrip().split("\n"))
