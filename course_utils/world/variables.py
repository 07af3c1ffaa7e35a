"""The variables of this rank, as the notebook reads and assigns them."""

from __future__ import annotations

from contextlib import suppress
from types import FunctionType, ModuleType

from IPython import get_ipython

from course_utils.pictures import Blocks, Snapshot
from course_utils.world.parcel import CannotSend, pack, unpack


def pull(name: str) -> tuple[bool, object]:
    """Return whether this rank has a variable `name`, and its value."""
    names = get_ipython().user_ns
    return name in names, names.get(name)


def push(name: str, value: object) -> None:
    """Assign a variable of this rank."""
    get_ipython().user_ns[name] = value


def snapshots(names: tuple[str, ...]) -> list[Snapshot | Blocks | None]:
    """Return what the variables `names` look like here; None where missing."""
    user_ns = get_ipython().user_ns
    return [Snapshot.of(user_ns.get(name)) for name in names]


def definitions() -> dict[str, bytes]:
    """Return the modules, functions and classes that cells have defined here."""
    shell = get_ipython()
    found = {}
    for name, value in list(shell.user_ns.items()):
        if name in shell.user_ns_hidden or name.startswith("_"):
            continue
        if isinstance(value, (ModuleType, FunctionType, type)):
            with suppress(CannotSend):
                found[name] = pack(value)
    return found


def define(parcels: dict[str, bytes]) -> None:
    """Define here what another rank has; what this rank has already stays."""
    names = get_ipython().user_ns
    for name, parcel in parcels.items():
        if name not in names:
            with suppress(CannotSend):
                names[name] = unpack(parcel, names)
