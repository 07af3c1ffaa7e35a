"""The ranks of a running world, as the notebook holds them."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from course_utils import engine
from course_utils.px import RankError, error_text
from course_utils.text import tag, these_ranks

if TYPE_CHECKING:
    from course_utils.cluster import Forked, HandedOver
    from course_utils.draw import Picture


class Ranks:
    """Real processes, each a rank of one `torch.distributed` world.

    Made by `course_utils.launch`. ``%%px`` runs a cell on all of them;
    ``ranks["x"]`` is the list of every rank's ``x``, in rank order.
    """

    def __init__(self, cluster: Forked | HandedOver, ids: list[int]) -> None:
        self._cluster = cluster
        self.ids = ids  # engine id of each rank, by rank
        self.view = cluster.client.direct_view(ids)
        self.view.block = True
        self.backend: str | None = None
        self.device = "cpu"
        self.stopped = False

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        size = f"{len(self)} rank{'s' if len(self) > 1 else ''}"
        if self.stopped:
            return f"{size} · stopped"
        return f"{size} · {self.backend or 'no process group'} · {self.device}"

    def __getitem__(self, name: str) -> list:
        """Return the list of every rank's variable `name`, in rank order.

        Raises NameError naming the ranks that have no such variable.
        """
        held = self.run(engine.pull, checked_name(name))
        missing = [rank for rank, (found, _) in enumerate(held) if not found]
        if missing:
            raise NameError(
                f"{these_ranks(missing)} of {len(self)} "
                f"{'have' if len(missing) > 1 else 'has'} no variable {name!r}: "
                "assign it in a %%px cell first"
            )
        return [value for _, value in held]

    def __setitem__(self, name: str, value: object) -> None:
        """Assign the same value to the variable `name` of every rank."""
        self.run(engine.push, checked_name(name), value)

    def run(
        self,
        function: Callable[..., Any],
        *args: object,
        targets: int | Iterable[int] | None = None,
    ) -> list:
        """Call a function on every rank; return the results in rank order.

        targets: a rank, or several, to call it on these only.
        Raises `RankError`, with one short block for each rank that failed.
        """
        chosen = self._chosen(targets)
        view = self._cluster.client.direct_view([self.ids[r] for r in chosen])
        result = view.apply_async(function, *args)
        return self.results(result, chosen)

    def run_each(self, function: Callable[..., Any], calls: list[tuple]) -> list:
        """Call a function on every rank, with arguments of its own for each."""
        client = self._cluster.client
        results = [
            client[engine].apply_async(function, *args)
            for engine, args in zip(self.ids, calls, strict=True)
        ]
        replies = [result.get(return_exceptions=True) for result in results]
        return self._checked(replies, list(range(len(self))))

    def reorder(self, order: list[int]) -> None:
        """Make the engine at position ``order[i]`` rank i."""
        self.ids[:] = [self.ids[i] for i in order]
        self.view.targets = self.ids

    def results(self, result, chosen: list[int]) -> list:
        """Wait for an asynchronous call; return its results or raise `RankError`."""
        return self._checked(result.get(return_exceptions=True), chosen)

    def _checked(self, replies: list, chosen: list[int]) -> list:
        failed = [
            f"{tag([rank])} {error_text(reply)}"
            for rank, reply in zip(chosen, replies, strict=True)
            if isinstance(reply, BaseException)
        ]
        if failed:
            raise RankError("\n".join(failed))
        return replies

    def where(self) -> Table:
        """Return a table of where each rank runs: pid, host, device."""
        rows = self.run(engine.whereabouts)
        return Table(("rank", "pid", "host", "device"), [
            (rank, row["pid"], row["host"], row["device"])
            for rank, row in enumerate(rows)
        ])

    def show(self, *names: str) -> Picture:
        """Draw the live tensors `names`, coloured by the rank they came from.

        The first name is taken for the shard of its rank; elements of the others
        get the colour of the rank in whose shard their value stands.
        """
        from course_utils import draw

        if not names:
            raise TypeError('show expects names of variables, as in show("shard")')
        names = tuple(checked_name(name) for name in names)
        seen = self.run(engine.snapshots, names)
        by_name = zip(names, zip(*seen, strict=True), strict=True)
        return draw.picture({name: list(column) for name, column in by_name})

    def stop(self) -> None:
        """End every process of this world. Harmless when it has ended."""
        if not self.stopped:
            self.stopped = True
            self._cluster.stop()

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    def ranks_of(self, ids: int | Iterable[int] | str) -> list[int]:
        """Return the ranks of engine ids."""
        if isinstance(ids, str):
            return list(range(len(self)))
        ids = [ids] if isinstance(ids, int) else ids
        return [self.ids.index(i) for i in ids]

    def _chosen(self, targets: int | Iterable[int] | None) -> list[int]:
        if self.stopped:
            raise RuntimeError("the ranks have been stopped: call launch() again")
        if targets is None:
            return list(range(len(self)))
        chosen = [targets] if isinstance(targets, int) else list(targets)
        unknown = [r for r in chosen if r not in range(len(self))]
        if unknown or not chosen:
            raise IndexError(
                f"expected ranks from 0 to {len(self) - 1}, got {targets!r}"
            )
        return chosen


class Table:
    """Rows under headings, shown as text."""

    def __init__(self, headings: tuple[str, ...], rows: list[tuple]) -> None:
        self.headings, self.rows = headings, rows

    def __repr__(self) -> str:
        cells = [[str(c) for c in row] for row in (self.headings, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        return "\n".join(
            "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
            for row in cells
        )


def checked_name(name: object) -> str:
    """Return `name` if it can be a variable's; raise TypeError if it cannot."""
    if isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name):
        return name
    raise TypeError(
        f'expected the name of a variable on the ranks, as in ranks["x"], got {name!r}'
    )
