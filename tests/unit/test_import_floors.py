"""Who may import whom in course_utils: three floors, and arrows only point down.

Imports inside functions count. Those under `if TYPE_CHECKING:` do not run, and are
left out.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import course_utils

PACKAGE = Path(course_utils.__file__).parent
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in PACKAGE.rglob("*.py")
}

FLOORS = ("pure", "rank", "client")  # lowest first
FLOOR = {  # a folder's entry holds for every module in it
    # no processes: the standard library alone
    "answers": "pure",
    "causes": "pure",
    "cells": "pure",
    "colour": "pure",
    "cost": "pure",
    "endings": "pure",
    "exercise": "pure",
    "fit": "pure",
    "hints": "pure",
    "layout": "pure",
    "messages": "pure",
    "quantities": "pure",
    "route": "pure",
    "scenes": "pure",
    "script": "pure",
    "states": "pure",
    "story": "pure",
    "summary": "pure",
    "text": "pure",
    "ways": "pure",
    # on an engine, or in any script under torchrun
    "adjoint": "rank",
    "agree": "rank",
    "attempt": "rank",
    "calls": "rank",
    "case_world": "rank",
    "concat": "rank",
    "connections": "rank",
    "engine": "rank",
    "exercises": "rank",
    "guard": "rank",
    "leash": "rank",
    "lists": "rank",
    "measure": "rank",
    "process_group": "rank",
    "recording": "rank",
    "rehearsal": "rank",
    "resident": "rank",
    "stacks": "rank",
    "transfer": "rank",
    "values": "rank",
    "watch": "rank",
    # in the kernel of the notebook, on the command line, or started from there
    "__init__": "client",
    "__main__": "client",
    "check": "client",
    "cluster": "client",
    "control": "client",
    "draw": "client",
    "export": "client",
    "film": "client",
    "fork": "client",
    "launch": "client",
    "launchers": "client",
    "machine": "client",
    "paint": "client",
    "plan": "client",
    "plot": "client",
    "px": "client",
    "ranks": "client",
    "repair": "client",
    "replay": "client",
    "report": "client",
    "setup": "client",
    "stage": "client",
    "stall": "client",
    "trial": "client",
    "verdict": "client",
    "zygote": "client",
}
PACKAGES = {
    "pure": set(),
    "rank": {"IPython", "psutil", "torch"},
    "client": {
        "IPython",
        "ipykernel",
        "ipyparallel",
        "matplotlib",
        "numpy",  # numpy and PIL come with matplotlib
        "PIL",
        "psutil",
        "traitlets",  # traitlets and zmq come with ipyparallel
        "zmq",
    },
}


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted name of every import in `tree`, wherever it stands."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from imports(ast.Module(node.orelse, []))
                continue
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom():
                package = "course_utils" if node.level else ""
                base = ".".join(filter(None, (package, node.module)))
                yield from (f"{base}.{alias.name}" for alias in node.names)
            case ast.Call(args=[ast.Constant(value=str(name)), *_]):
                if ast.unparse(node.func).endswith(("import_module", "__import__")):
                    yield name
        yield from imports(node)


def own(names: set[str]) -> set[str]:
    """Return the modules of course_utils among the dotted names."""
    inside = {
        name.partition(".")[2] for name in names if name.split(".")[0] == "course_utils"
    }
    return {module_of(name) for name in inside}


def module_of(name: str) -> str:
    """Return the module that the dotted name, below course_utils, is from."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        for found in (module, f"{module}.__init__"):
            if found in MODULES:
                return found
    return "__init__"


def floor_of(name: str) -> str | None:
    return FLOOR.get(name) or FLOOR.get(name.split(".")[0])


def foreign(names: set[str]) -> set[str]:
    """Return the packages among the dotted names, the standard library left out."""
    tops = {name.split(".")[0] for name in names}
    return tops - sys.stdlib_module_names - {"course_utils"}


def read(name: str) -> set[str]:
    return set(imports(ast.parse(MODULES[name].read_text(encoding="utf-8"))))


def test_every_module_has_a_floor():
    without = [name for name in MODULES if floor_of(name) is None]
    assert without == [], "give it a floor in this file"


@pytest.mark.parametrize("name", sorted(filter(floor_of, MODULES)))
def test_arrows_point_down(name):
    names, floor = read(name), floor_of(name)
    allowed = FLOORS[: FLOORS.index(floor) + 1]
    higher = {mod for mod in own(names) if floor_of(mod) not in (None, *allowed)}
    assert higher == set(), f"{name} ({floor}) imports from a higher floor"
    assert foreign(names) <= PACKAGES[floor]


def test_no_circles():
    """static_order raises CycleError, which names the circle."""
    graph = {name: own(read(name)) - {name} for name in MODULES}
    assert list(TopologicalSorter(graph).static_order())


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("def f():\n    import torch.distributed as dist", {"torch.distributed"}),
        ("from . import launch", {"course_utils.launch"}),
        ("from .draw import Picture", {"course_utils.draw.Picture"}),
        ("import_module('torch')", {"torch"}),
        ("if TYPE_CHECKING:\n    import torch\nelse:\n    import abc", {"abc"}),
        ("try:\n    import torch\nexcept ImportError:\n    pass", {"torch"}),
    ],
)
def test_the_reader_sees_every_kind_of_import(code, names):
    assert set(imports(ast.parse(code))) == names


def test_few_names_are_exported():
    names = getattr(course_utils, "__all__", None)
    if names is None:
        tree = ast.parse(MODULES["__init__"].read_text(encoding="utf-8"))
        names = [name for name in imports(tree) if name.startswith("course_utils.")]
    assert len(names) <= 8


def test_importing_the_package_imports_nothing_heavy():
    """A script under torchrun pays for what it uses, and the fork parent starts first.

    psutil is small, and `launch` counts memory with it before anything starts.
    """
    code = "import sys; old = set(sys.modules); import course_utils; "
    code += "print(*{name.split('.')[0] for name in set(sys.modules) - old})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert foreign(set(done.stdout.split())) <= {"psutil"}
