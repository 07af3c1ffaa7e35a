"""A call of a function of torch.distributed, as it was recorded."""

from __future__ import annotations

from typing import Any, NamedTuple


class Call(NamedTuple):
    """A call of torch.distributed that a function made: name and arguments."""

    name: str
    arguments: dict[str, Any]
