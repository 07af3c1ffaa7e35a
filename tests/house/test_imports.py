"""Who may import whom in course_utils: packages, floors, faces.

Packages and floors are stacked, and arrows only point down. What another package
gives, it gives at its face: a name of its `__init__`. Imports inside functions and
under `if TYPE_CHECKING:` count.
"""

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import course_utils

pytestmark = pytest.mark.unit

PACKAGE = Path(course_utils.__file__).parent
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in PACKAGE.rglob("*.py")
}
STACK = (  # who is further down knows nothing of those above
    "face",
    "text",
    "read",
    "pictures",
    "same_host",
    "guard",
    "concat",
    "mpi_backend",
    "process_group",
    "replay",
    "measure",
    "engines",
    "stuck",
    "world",
    "watched",
    "exercises",
    "classroom",
    "doctor",
    "export",
    "nb_guard",
    "",  # what stands in no package: `course_utils` itself and its command line
)

FLOORS = ("pure", "rank", "client")  # lowest first
FLOOR = {  # a folder's entry holds for every module in it that has none
    "face": "pure",
    "text": "pure",
    "read": "pure",
    "pictures": "client",
    "pictures.cells": "pure",
    "pictures.colour": "pure",
    "pictures.layout": "pure",
    "same_host": "rank",
    "guard": "rank",
    "concat": "rank",
    "mpi_backend": "rank",
    "process_group": "rank",
    "replay": "client",
    "replay.call": "pure",
    "replay.calls": "rank",
    "replay.messages": "pure",
    "replay.pieces": "pure",
    "replay.recording": "rank",
    "replay.scenes": "pure",
    "replay.story": "pure",
    "measure": "rank",
    "measure.link": "pure",
    "measure.planning": "client",
    "measure.prediction": "pure",
    "measure.route": "pure",
    "measure.summary": "pure",
    "measure.ways": "pure",
    "engines": "client",
    "engines.leash": "rank",
    "stuck": "client",
    "stuck.causes": "pure",
    "stuck.connections": "rank",
    "stuck.looking": "rank",
    "stuck.report": "pure",
    "stuck.stacks": "rank",
    "stuck.states": "pure",
    "stuck.watch": "rank",
    "world": "client",
    "world.alone": "pure",
    "world.cell_lines": "rank",
    "world.parcel": "rank",
    "world.rank": "rank",
    "world.stop": "pure",
    "world.variables": "rank",
    "watched": "rank",
    "watched.flight": "pure",
    "watched.launchers": "pure",
    "watched.options": "pure",
    "watched.page": "pure",
    "watched.verdict": "pure",
    "watched.words": "pure",
    "exercises": "client",
    "exercises.answers": "pure",
    "exercises.attempt": "rank",
    "exercises.case_world": "rank",
    "exercises.endings": "pure",
    "exercises.evidence": "rank",
    "exercises.exercise": "pure",
    "exercises.forms": "pure",
    "exercises.hints": "pure",
    "exercises.lessons": "rank",
    "exercises.places": "pure",
    "exercises.refusals": "pure",
    "exercises.set_orders": "rank",
    "exercises.source": "pure",
    "exercises.values": "rank",
    "exercises.wording": "pure",
    "exercises.worlds": "pure",
    "exercises.registry": "rank",
    "classroom": "client",
    "classroom.rows": "pure",
    "classroom.submission": "pure",
    "classroom.twin": "pure",
    "doctor": "client",
    "doctor.examination": "pure",
    "doctor.on_ranks": "rank",
    "export": "client",
    "export.script": "pure",
    "nb_guard": "client",
    "__init__": "client",
    "__main__": "client",
}
LAZY = "course_utils.face"  # a face that uses this imports nothing by itself
PACKAGES = {
    "pure": set(),
    "rank": {"IPython", "cloudpickle", "mpi4py", "psutil", "torch"},
    "client": {
        "IPython",
        "cloudpickle",
        "ipykernel",
        "ipyparallel",
        "jupyter_client",  # jupyter_client and packaging come with ipykernel
        "matplotlib",
        "packaging",
        "nbconvert",  # nbconvert and nbformat come with jupyterlab
        "nbformat",
        "nbval",  # nbval and pytest come with the extra "test"
        "numpy",  # numpy and PIL come with matplotlib
        "PIL",
        "psutil",
        "pytest",
        "traitlets",  # traitlets and zmq come with ipyparallel
        "zmq",
    },
}


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted name of every import in `tree`, wherever it stands."""
    for node in ast.iter_child_nodes(tree):
        match node:
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


@cache
def read(name: str) -> set[str]:
    return set(imports(ast.parse(MODULES[name].read_text(encoding="utf-8"))))


def package_of(name: str) -> str:
    """Return the package of a module; "" for one of `course_utils` itself."""
    first = name.split(".")[0]
    return "" if first.startswith("__") else first


def face_of(package: str) -> dict[str, str]:
    """Return the names that a package gives to others, and the module of each."""
    face = importlib.import_module(f"course_utils.{package}")
    if not hasattr(face, "__path__"):
        return {name: package for name in vars(face)}
    homes = {}
    for name in face.__all__:
        given = getattr(face, name)
        home = getattr(given, "__module__", None) or getattr(given, "__name__", "")
        if not home.startswith("course_utils."):
            home = f"course_utils.{package}.__init__"  # a constant
        homes[name] = home.removeprefix("course_utils.")
    return homes


FACES = {package: face_of(package) for package in STACK if package}


def module_of(dotted: str) -> str:
    """Return the module that the dotted name, below course_utils, is from."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        if module in MODULES:
            return module
        if f"{module}.__init__" in MODULES:
            name = parts[length] if len(parts) > length else ""
            home = FACES.get(module, {}).get(name, "")
            return home if home in MODULES else f"{module}.__init__"
    return "__init__"


def own(names: set[str]) -> set[str]:
    """Return the modules of course_utils among the dotted names."""
    inside = (n.partition(".")[2] for n in names if n.split(".")[0] == "course_utils")
    return {module_of(name) for name in inside}


def floor_of(name: str) -> str | None:
    parts = name.split(".")
    lengths = range(len(parts), 0, -1)
    return next((FLOOR[k] for n in lengths if (k := ".".join(parts[:n])) in FLOOR), "")


def foreign(names: set[str]) -> set[str]:
    """Return the packages among the dotted names, the standard library left out."""
    tops = {name.split(".")[0] for name in names}
    return tops - sys.stdlib_module_names - {"course_utils"}


def is_lazy_face(name: str) -> bool:
    return name.endswith(".__init__") and f"{LAZY}.opened" in read(name)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_every_module_has_a_place(name):
    assert package_of(name) in STACK, "give its package a place in the stack"
    assert floor_of(name), "give it a floor in this file"


@pytest.mark.parametrize("name", sorted(MODULES))
def test_packages_point_down(name):
    mine = STACK.index(package_of(name))
    higher = {m for m in own(read(name)) if STACK.index(package_of(m)) > mine}
    assert higher == set(), f"{name} imports from a package above its own"


@pytest.mark.parametrize("name", sorted(MODULES))
def test_floors_point_down(name):
    names, floor = read(name), floor_of(name)
    allowed = FLOORS[: FLOORS.index(floor) + 1]
    higher = {
        m for m in own(names) if floor_of(m) not in allowed and not is_lazy_face(m)
    }
    assert higher == set(), f"{name} ({floor}) imports from a higher floor"
    assert foreign(names) <= PACKAGES[floor]


@pytest.mark.parametrize("name", sorted(MODULES))
def test_other_packages_are_entered_by_their_face(name):
    """A name of the face, or a name of a module that the face gives as a whole."""
    inside = [n.split(".")[1:] for n in read(name) if n.startswith("course_utils.")]
    for package, *rest in inside:
        if package in (package_of(name), "face") or package not in FACES or not rest:
            continue
        assert rest[0] in FACES[package], f"{name} enters {package} by {rest[0]}"


@pytest.mark.parametrize("package", sorted(FACES))
def test_no_name_of_a_face_hides_a_module(package):
    """Once imported, a module is an attribute of its package, and would win."""
    for name, home in FACES[package].items():
        if f"{package}.{name}" in MODULES:
            assert home == f"{package}.{name}"


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
        (
            "if TYPE_CHECKING:\n    import torch\nelse:\n    import abc",
            {"torch", "abc"},
        ),
        ("try:\n    import torch\nexcept ImportError:\n    pass", {"torch"}),
    ],
)
def test_the_reader_sees_every_kind_of_import(code, names):
    assert set(imports(ast.parse(code))) == names


@pytest.mark.parametrize(
    ("dotted", "module"),
    [
        ("text.tag", "text.tags"),
        ("text.tags.tag", "text.tags"),
        ("pictures.Snapshot", "pictures.layout"),
        ("pictures.paint", "pictures.paint"),
        ("pictures.paint.Page", "pictures.paint"),
        ("launch", "__init__"),
    ],
)
def test_the_reader_finds_the_module_behind_a_face(dotted, module):
    assert module_of(dotted) == module


def test_few_names_are_exported():
    assert len(course_utils.__all__) <= 8


@pytest.fixture(scope="module")
def with_launch() -> set[str]:
    """Return the modules that `from course_utils import launch` imports."""
    code = "import sys; old = set(sys.modules); from course_utils import launch; "
    code += "print(*set(sys.modules) - old)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(done.stdout.split())


def test_importing_the_package_imports_nothing_heavy(with_launch):
    """Scripts pay for what they use alone, and the fork parent starts at once."""
    assert not foreign({name.partition(".")[0] for name in with_launch})


def test_importing_launch_imports_no_launcher_but_the_default(with_launch):
    others = {"handed_over", "in_namespaces", "on_slurm", "over_mpi", "over_ssh"}
    assert not {f"course_utils.engines.{name}" for name in others} & with_launch
    assert "course_utils.engines.forked" in with_launch
