"""Where IPython and pytest enter course_utils.

This module stands outside of the package, so that it is found where another package
of that name hides ours, and can say so. It imports the package when it is used.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest
    from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

OURS = Path(__file__).resolve().parent / "course_utils"
TWO = """\
two packages are called course_utils, and Python takes the first:
  {theirs}
  {ours} (of this course)
Rename or move the first, or start Python in another folder."""


def in_the_way() -> str:
    """Say which other course_utils Python would import; "" if it is ours."""
    found = PathFinder.find_spec("course_utils", sys.path)
    if found is None:  # an editable installation, which has a finder of its own
        return ""
    places = [found.origin] if found.origin else found.submodule_search_locations or []
    folders = [Path(place).resolve() for place in places]
    if found.origin is None or OURS / "__init__.py" in folders:
        return ""
    return TWO.format(theirs=folders[0], ours=OURS / "__init__.py")


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Let `%%px` say what it needs, or, in a kernel that cannot, why imports fail."""
    if in_the_way():
        shell.events.register("post_run_cell", explain)
        return
    from course_utils.world import before_launch

    before_launch.load_ipython_extension(shell)


def explain(result: ExecutionResult) -> None:
    """Say more of an import from another course_utils that failed."""
    error = result.error_in_exec
    if isinstance(error, ImportError) and str(error.name).startswith("course_utils"):
        print(in_the_way(), file=sys.stderr)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of `course_utils.nb_guard`."""
    group = parser.getgroup("nb-guard", "guards for notebooks, beside nbval")
    group.addoption(
        "--nb-guard",
        action="store_true",
        help="fail notebook cells that hang, never ran or are skipped, and runs that "
        "leave processes behind",
    )
    group.addoption(
        "--nb-guard-unrun",
        action="store_true",
        help="run cells that have no stored outputs, and compare nothing",
    )
    group.addoption(
        "--nb-guard-skips",
        action="store_true",
        help="let cells be skipped by a tag",
    )
    group.addoption(
        "--nb-guard-limit",
        type=float,
        default=0,
        metavar="SECONDS",
        help="for all cells of a notebook together (default: none)",
    )
    group.addoption(
        "--nb-guard-patience",
        type=float,
        default=5,
        metavar="SECONDS",
        help="that processes may take to end after the last test (default: 5)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Turn the guards on where they are asked for."""
    if not config.option.nb_guard:
        return
    if problem := in_the_way():
        import pytest

        raise pytest.UsageError(problem)
    from course_utils.nb_guard import turn_on

    turn_on(config)
