"""What the ranks tell one another, on the store at which they meet."""

from __future__ import annotations

import json
import os
from typing import Any

NAME = "course_utils.watched"
ATTEMPT = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")  # of torchrun


class Board:
    """A place for the state of every rank, and for news that concern all.

    Every call is one short request to the store. Each of them raises RuntimeError
    once the store is gone.
    """

    def __init__(self, store: Any, rank: int, world_size: int) -> None:
        self.rank, self.world_size = rank, world_size
        self._store = store
        self._prefix = "/".join([NAME, *(os.environ.get(n, "") for n in ATTEMPT)])
        self._heard = 0  # news that were read
        self._known: set[int] = set()  # ranks that have told something

    def tell(self, state: dict[str, Any]) -> None:
        """Put down the state of this rank."""
        self._store.set(self._key("state", self.rank), json.dumps(state))

    def everyone(self) -> dict[int, dict[str, Any]]:
        """Return what every rank told last, without those that never did."""
        for rank in set(range(self.world_size)) - self._known:
            if self._store.check([self._key("state", rank)]):
                self._known.add(rank)
        ranks = sorted(self._known)
        if not ranks:
            return {}
        said = self._store.multi_get([self._key("state", rank) for rank in ranks])
        return {rank: json.loads(text) for rank, text in zip(ranks, said, strict=True)}

    def announce(self, what: dict[str, Any]) -> None:
        """Tell all ranks something, once."""
        number = self._store.add(self._key("taken"), 1)
        self._store.set(self._key("news", number), json.dumps(what))
        self._store.add(self._key("out"), 1)

    def news(self) -> list[dict[str, Any]]:
        """Return what was announced since the last call."""
        found = []
        while self._heard < self._store.add(self._key("out"), 0):
            text = self._store.get(self._key("news", self._heard + 1))
            self._heard += 1
            found.append(json.loads(text))
        return found

    def claim(self, what: str) -> bool:
        """Tell whether this rank is the first to claim something."""
        return self._store.add(self._key("claim", what), 1) == 1

    def acknowledge(self, what: str) -> None:
        """Count this rank among those that have done something."""
        self._store.add(self._key("done", what), 1)

    def acknowledged(self, what: str) -> int:
        """Return how many ranks have done something."""
        return self._store.add(self._key("done", what), 0)

    def _key(self, *parts: object) -> str:
        return "/".join([self._prefix, *map(str, parts)])
