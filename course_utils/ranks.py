"""The ranks of a running world, as the notebook holds them."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from ipyparallel import AsyncResult

from course_utils import engine, repair, report, stall
from course_utils.control import Control
from course_utils.text import (
    NoSuchVariable,
    RankError,
    aligned,
    failures,
    paragraph,
    tag,
    these_ranks,
)

if TYPE_CHECKING:
    from course_utils.cluster import Forked, HandedOver
    from course_utils.draw import Picture
    from course_utils.replay import Replay


class Ranks(Control):
    """Real processes, each a rank of one `torch.distributed` world.

    Made by `course_utils.launch`. ``%%px`` runs a cell on all of them;
    ``ranks["x"]`` is the list of every rank's ``x``, in rank order.
    """

    def __init__(
        self,
        cluster: Forked | HandedOver,
        guard: bool = True,
        timeout: float = 300,
        patience: float = 5,
    ) -> None:
        super().__init__(cluster)
        self.guard, self.timeout, self.patience = guard, timeout, patience
        self.backend: str | None = None
        self.device = "cpu"
        self.stopped = False

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
            raise NoSuchVariable(
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
        Raises `RankError`, with one short block for ranks that failed alike. Where a
        collective failed so that the process group is of no use any more, the ranks
        get a new one.
        """
        calls = {rank: args for rank in self._chosen(targets)}
        replies = self._replies(function, calls)
        errors = errors_of(replies)
        if errors:
            self.fail(errors)
        return list(replies.values())

    def run_each(self, function: Callable[..., Any], calls: dict[int, tuple]) -> list:
        """Call a function on ranks, with arguments of its own for each.

        The process group stays as it is, whatever the function raises.
        """
        self._chosen(calls)
        replies = self._replies(function, calls)
        errors = errors_of(replies)
        if errors:
            raise RankError(failures(errors))
        return list(replies.values())

    def run_all(self, function: Callable[..., Any], *args: object) -> list:
        """Call a function on every rank, as `run_each` does."""
        return self.run_each(function, dict.fromkeys(range(len(self)), args))

    def _replies(self, function: Callable[..., Any], calls: dict[int, tuple]) -> dict:
        """Call a function on ranks; return by rank what it returned or raised."""
        client, chosen = self.cluster.client, list(calls)
        parts = [
            client[self.ids[rank]].apply_async(function, *args)
            for rank, args in calls.items()
        ]
        children = [child for part in parts for child in part._children]
        targets = [self.ids[rank] for rank in chosen]
        result = AsyncResult(client, children, repr(function), targets)
        self.watch(result, chosen)
        return dict(zip(chosen, result.get(return_exceptions=True), strict=True))

    def fail(self, errors: dict[int, BaseException]) -> NoReturn:
        """Raise `RankError` for what ranks raised; mend what that has broken."""
        text = failures(errors)
        if any(report.is_broken(str(error)) for error in errors.values()):
            with repair.undisturbed():
                text += f"\n  repaired: {repair.repair(self)}"
        raise RankError(text)

    def watch(self, result, targets: list[int], source: str = "", live=None) -> None:
        """Wait for a cell or call; raise `RankError` if it cannot end by itself.

        The world is usable afterwards: stuck ranks are freed and the process
        group is made anew. Dead ranks are left to `repair` and `shrink`.
        """
        watched = stall.Watched(self, result, targets)
        try:
            if watched.wait(live):
                return
            by_hand = False
        except KeyboardInterrupt:
            by_hand = True
        with repair.undisturbed():
            raise RankError(self._end(watched, source, by_hand))

    def _end(self, watched: stall.Watched, source: str, by_hand: bool) -> str:
        """End a cell that does not end by itself; return the report.

        by_hand: it was interrupted.
        """
        dead = [] if by_hand else self.dead()
        if by_hand:
            watched.look()
            text = report.interrupted(watched.states)
        elif dead:
            text = report.died(self, dead)
        else:
            errors = watched.errors()
            text = report.stuck(watched.states, errors, source, self.patience)
        repair.settle(self, watched, interrupt=by_hand)
        if dead:
            return f"{text}\n  {report.how_to_go_on(self, dead)}"
        return f"{text}\n  repaired: {repair.repair(self)}"

    def repair(self) -> None:
        """Bring in new processes for dead ranks, and make a new process group.

        Variables on the ranks that live are kept; sub-groups are gone.
        """
        self._check_running()
        with repair.undisturbed():
            print(paragraph(repair.repair(self)))

    def shrink(self) -> None:
        """Go on without the dead ranks: the others become a smaller world."""
        self._check_running()
        with repair.undisturbed():
            print(paragraph(repair.shrink(self)))

    def where(self) -> Table:
        """Return a table of where each rank runs: pid, host, device."""
        rows = self.run(engine.whereabouts)
        return Table(
            ("rank", "pid", "host", "device"),
            [(i, row["pid"], row["host"], row["device"]) for i, row in enumerate(rows)],
        )

    def show(self, *names: str) -> Picture:
        """Draw the live tensors `names`, coloured by the rank they came from.

        The first name is taken for the shard of its rank; elements of the others
        get the colour of the rank in whose shard their value stands.
        """
        from course_utils import draw  # matplotlib, which few cells need

        if not names:
            raise TypeError('show expects names of variables, as in show("shard")')
        names = tuple(checked_name(name) for name in names)
        seen = self.run(engine.snapshots, names)
        by_name = dict(zip(names, map(list, zip(*seen, strict=True)), strict=True))
        unknown = [n for n, held in by_name.items() if all(h is None for h in held)]
        if unknown:
            raise NoSuchVariable(
                f"no rank has a variable {' or '.join(unknown)} to show"
            )
        return draw.picture(by_name)

    def replay(self, expression: str) -> Replay:
        """Evaluate an expression on every rank, and draw who sends what to whom.

        It is evaluated in the names of the ranks, as in `%%px`. What `send`, `recv`,
        `isend`, `irecv` and `batch_isend_irecv` move becomes an animation; its
        `save` stores it for slides.
        """
        from course_utils import replay  # matplotlib, which few cells need

        return replay.replay(self, expression)

    def stop(self) -> None:
        """End every process of this world. Harmless when it has ended."""
        if not self.stopped:
            self.stopped = True
            self.cluster.stop()

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    def check_alive(self) -> None:
        """Raise RankError if ranks are dead, or the world is stopped."""
        self._check_running()
        dead = self.dead()
        if dead:
            ends = ", ".join(f"{tag([r])} {self.ending(r)}" for r in dead)
            raise RankError(f"dead: {ends}\n  {report.how_to_go_on(self, dead)}")

    def _check_running(self) -> None:
        if self.stopped:
            raise RankError("the ranks have been stopped: call launch() again")

    def _chosen(self, targets: int | Iterable[int] | None) -> list[int]:
        self._check_running()
        if targets is None:
            chosen = list(range(len(self)))
        else:
            chosen = [targets] if isinstance(targets, int) else list(targets)
        if not chosen or any(rank not in range(len(self)) for rank in chosen):
            raise IndexError(
                f"expected ranks from 0 to {len(self) - 1}, got {targets!r}"
            )
        if set(chosen) & set(self.dead()):
            self.check_alive()
        return chosen


def errors_of(replies: dict[int, Any]) -> dict[int, BaseException]:
    """Return what ranks raised, by rank."""
    return {
        rank: reply
        for rank, reply in replies.items()
        if isinstance(reply, BaseException)
    }


class Table:
    """Rows under headings, shown as text."""

    def __init__(self, headings: tuple[str, ...], rows: list[tuple]) -> None:
        self.headings, self.rows = headings, rows

    def __repr__(self) -> str:
        return aligned([self.headings, *self.rows])


def checked_name(name: object) -> str:
    """Return `name` if it can be a variable's; raise TypeError if it cannot."""
    if isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name):
        return name
    raise TypeError(
        f'expected the name of a variable on the ranks, as in ranks["x"], got {name!r}'
    )
