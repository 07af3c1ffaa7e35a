"""The ranks of a running world, as the notebook holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from course_utils.text import paragraph
from course_utils.world import cables, ending, reading, repair
from course_utils.world.output import shown
from course_utils.world.rank import call
from course_utils.world.stop import stoppable
from course_utils.world.world import World, errors_of

LEFT_ALONE = "what runs there ends by itself within 30 s"

if TYPE_CHECKING:
    from course_utils.pictures import Picture
    from course_utils.replay import Replay


class Ranks(World):
    """Real processes, each a rank of one `torch.distributed` world.

    Made by `course_utils.launch`. ``%%px`` runs a cell on all of them;
    ``ranks["x"]`` is the list of every rank's ``x``, in rank order.
    """

    def __repr__(self) -> str:
        size = f"{len(self)} rank{'s' if len(self) > 1 else ''}"
        if self.stopped:
            return f"{size} · stopped"
        hosts = len(set(self.hosts))
        size += f" on {hosts} hosts" if hosts > 1 else ""
        return f"{size} · {self.backend or 'no process group'} · {self.device}"

    def __getitem__(self, name: str) -> list:
        """Return the list of every rank's variable `name`, in rank order.

        Raises NameError naming the ranks that have no such variable.
        """
        with stoppable(f"fetching {name!r}"):
            return reading.fetch(self, name)

    def __setitem__(self, name: str, value: object) -> None:
        """Assign the same value to the variable `name` of every rank."""
        with stoppable(f"sending {name!r}"):
            reading.assign(self, name, value)

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
        calls = dict.fromkeys(self.chosen(targets), args)
        with stoppable("a call on the ranks"):
            result = self.submit(function, calls)
            with shown(result, list(calls), alone=False) as live:
                self.watch(result, list(calls), reading.source_of(function), live)
            replies = self.results(result, calls)
        if errors := errors_of(replies):
            ending.fail(self, errors)
        return list(replies.values())

    def show(self, *names: str) -> Picture:
        """Draw the live tensors `names`, coloured by the rank they came from.

        The first name is taken for the shard of its rank; elements of the others
        get the colour of the rank in whose shard their value stands.
        """
        with stoppable("drawing"):
            return reading.picture_of(self, names)

    def replay(self, expression: str) -> Replay:
        """Evaluate an expression on every rank, and draw who sends what to whom.

        It is evaluated in the names of the ranks, as in `%%px`. What `send`, `recv`,
        `isend`, `irecv` and `batch_isend_irecv` move becomes an animation; its
        `save` stores it for slides.
        """
        from course_utils.replay import replay  # matplotlib, which few cells need

        return replay(partial(self.run, call), expression)

    def where(self) -> reading.Table:
        """Return a table of where each rank runs: pid, host, local rank, device."""
        return reading.places_of(self)

    def unplug(self, host: str, after: float = 0) -> None:
        """Pull the cable of a host inside this machine: nothing reaches it any more.

        host: named as in `where`; after: seconds until then, for a cell that runs.
        """
        cables.pull(self, host, after)

    def plug(self, host: str) -> None:
        """Plug the cable of a host in again.

        Within 8 s all goes on; later its ranks count as lost, and `repair` brings
        them back.
        """
        cables.plug(self, host)

    def watch(
        self,
        result,
        targets: list[int],
        source: str = "",
        live=None,
        stopped: bool = False,
    ) -> None:
        """Wait for a cell or call; raise `RankError` if it cannot end by itself.

        The world is usable afterwards: stuck ranks are freed and the process
        group is made anew. Dead ranks are left to `repair` and `shrink`.
        """
        ending.watch(self, result, targets, source, live, stopped)

    def repair(self) -> None:
        """Bring in new processes for dead ranks, and make a new process group.

        Variables on the ranks that live are kept; sub-groups are gone.
        """
        self.check_running()
        with repair.undisturbed():
            print(paragraph(repair.bring_back(self)))

    def shrink(self) -> None:
        """Go on without the dead ranks: the others become a smaller world."""
        self.check_running()
        with repair.undisturbed():
            print(paragraph(repair.go_on_without_dead(self)))

    def stop(self) -> None:
        """End every process of this world. Harmless when it has ended.

        What runs on a host that is out of reach ends by itself, and this is said.
        """
        if not self.stopped:
            self.stopped = True
            if self.held is not None:
                self.held.close()
            if lost := self.cluster.stop():
                print(paragraph(f"out of reach: {', '.join(lost)}; {LEFT_ALONE}"))

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_) -> None:
        self.stop()
