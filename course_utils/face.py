"""The face of a package: the names that others use, each imported when first used.

A package has modules for the notebook's kernel, for the ranks, and pure ones. Whoever
uses a name of one gets that module alone: a script under torchrun does not pay for
matplotlib, nor a rank for ipyparallel. What is not installed is missed only then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

EXTRAS = {  # where the packages come from that launch and %%px can do without
    "course": ("matplotlib", "PIL", "numpy", "nbconvert", "nbformat"),
    "test": ("pytest", "nbval"),
}


class MissingExtra(ModuleNotFoundError):
    """Something asked for needs a package that comes with an extra."""


def opened(
    package: str, modules: dict[str, tuple[str, ...]]
) -> tuple[list[str], Callable[[str], Any]]:
    """Return ``__all__`` and ``__getattr__`` of a package.

    modules: the names that each module of the package gives to others; a module
        that gives no name is itself such a name.
    """
    homes = {name: module for module, names in modules.items() for name in names}
    homes |= {module: "" for module, names in modules.items() if not names}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = imported(f"{package}.{homes[name] or name}")
        found = getattr(module, name) if homes[name] else module
        setattr(sys.modules[package], name, found)
        return found

    return sorted(homes), get


def imported(module: str) -> Any:
    """Import a module; raise MissingExtra where a package of an extra is missing."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        needed = str(error.name).partition(".")[0]
        for extra, packages in EXTRAS.items():
            if needed in packages:
                text = f"{module} needs {needed}: pip install 'course-utils[{extra}]'"
                raise MissingExtra(text, name=error.name) from None
        raise
