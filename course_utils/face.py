"""The face of a package: the names that others use, each imported when first used.

A package has modules for the notebook's kernel, for the ranks, and pure ones. Whoever
uses a name of one gets that module alone: a script under torchrun does not pay for
matplotlib, nor a rank for ipyparallel.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


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
        module = import_module(f"{package}.{homes[name] or name}")
        found = getattr(module, name) if homes[name] else module
        setattr(sys.modules[package], name, found)
        return found

    return sorted(homes), get
