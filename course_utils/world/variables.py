"""The variables of this rank, as the notebook reads and assigns them."""

from __future__ import annotations

from IPython import get_ipython

from course_utils.pictures import Blocks, Snapshot


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
