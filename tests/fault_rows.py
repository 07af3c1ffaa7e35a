"""The fault matrix: a cell that goes wrong, and the report that it must end with.

In a report stand `{all}`, `{rest}` (all but rank 0), `{others}` (all but rank 1)
and `{last}` for ranks of a world of any size, as in "ranks 1–2"; `{rest.wait}` is
"waits" or "wait". An empty report: the cell ends well.
"""

from __future__ import annotations

from dataclasses import dataclass

from course_utils.text.tags import these_ranks

PATIENCE = 0.4  # seconds
REPAIRED = "  repaired: a new process group is up, variables are kept"
SUBGROUPS = REPAIRED + "; sub-groups are gone"
ANEW = (
    "{} is a new process, the variables there are lost; "
    "a new process group is up, the others' variables are kept"
)
BOTH = (True, False)


class Who:
    """Ranks as a report names them."""

    def __init__(self, ranks) -> None:
        self.ranks = list(ranks)
        many = len(self.ranks) > 1
        self.wait = "wait" if many else "waits"
        self.do = "do" if many else "does"

    def __str__(self) -> str:
        return these_ranks(self.ranks)


@dataclass(frozen=True)
class Row:
    """One fault.

    report: what the cell ends with; said: what it prints.
    lost: the rank that ends, or is replaced.
    dies: the cell ends with a report of its death, and `ranks.repair()` is called.
    guard: with it, without it, or both; sizes: of the worlds.
    """

    name: str
    cell: str
    report: str = ""
    said: str | None = None
    lost: int | None = None
    dies: bool = False
    guard: tuple[bool, ...] = BOTH
    sizes: tuple[int, ...] = (3,)
    targets: str = ""
    times: int = 3

    def expected(self, size: int) -> str:
        """Return the report in a world of some size."""
        ranks = {
            "all": Who(range(size)),
            "rest": Who(range(1, size)),
            "last": Who([size - 1]),
            "others": Who([0, *range(2, size)]),
            "left": size - 1,
        }
        return self.report.format(**ranks, patience=f"for {PATIENCE:g} s")


def stuck(first: str, *states: str, cause: str = "", done: str = REPAIRED) -> str:
    """Return the report of a stuck cell."""
    lines = [f"stuck: {first}", *[f"  {state}" for state in states]]
    if cause:
        lines.append(f"  likely cause: {cause}")
    return "\n".join([*lines, done])


def replaced(rank: int) -> str:
    """Return the last line of a report after which a rank is a new process."""
    return f"  repaired: {ANEW.format(f'rank {rank}')}"


def died(rank: int, how: str, *words: str) -> str:
    """Return the report of a rank that died; words: its last ones."""
    return "\n".join(
        [
            f"[rank {rank}] died: {how}",
            *(["  its last words:"] if words else []),
            *[f"    {word}" for word in words],
            f"  ranks.repair() brings in a new process at rank {rank}, "
            "ranks.shrink() goes on with the other {left}",
        ]
    )


def under(line: int, test: str, gone: str, call: str) -> str:
    """Return the likely cause of a call in a branch."""
    return (
        f"line {line} stands under {test}, so {gone} never came to {call}; "
        "every rank of the group has to call it"
    )


CALLS = {  # call by name, and how a report names it
    "broadcast": ("dist.broadcast(x, src=0)", "broadcast(src=0)"),
    "all_gather": ("dist.all_gather(room(), x)", "all_gather"),
    "gather": (
        "dist.gather(x, room() if rank == 0 else None, dst=0)",
        "gather(dst=0)",
    ),
    "scatter": (
        "dist.scatter(x, room() if rank == 0 else None, src=0)",
        "scatter(src=0)",
    ),
    "barrier": ("dist.barrier()", "barrier"),
    "all_reduce": ("dist.all_reduce(x)", "all_reduce"),
    "reduce": ("dist.reduce(x, dst=0)", "reduce(dst=0)"),
    "reduce_scatter": ("dist.reduce_scatter(x, room())", "reduce_scatter"),
    "all_gather_single": (
        "dist.all_gather_single(torch.cat(room()), x)",
        "all_gather_single",
    ),
    "all_to_all_single": (
        "dist.all_to_all_single(torch.cat(room()), torch.cat(room()))",
        "all_to_all_single",
    ),
    "all_gather_object": (
        "dist.all_gather_object([None] * world_size, rank)",
        "all_gather_object",
    ),
    "broadcast_object_list": (
        "dist.broadcast_object_list([rank], src=0)",
        "broadcast_object_list(src=0)",
    ),
}
EVERYWHERE = ("broadcast", "all_gather")  # each rank is missing in turn


def missing(name: str, gone: int, size: int) -> Row:
    """Return a fault in which one rank of a guarded world leaves a call out."""
    call, shown = CALLS[name]
    waiting = Who(r for r in range(size) if r != gone)
    states = {
        waiting.ranks[
            0
        ]: f"[{waiting}] {waiting.wait} in {shown} at line 3 {{patience}}",
        gone: f"[rank {gone}] finished without calling it",
    }
    return Row(
        f"rank {gone} misses {name}",
        f"if rank != {gone}:\n    {call}",
        stuck(
            f"{waiting} {waiting.wait} for rank {gone}",
            *[states[r] for r in sorted(states)],
            cause=under(3, f"`if rank != {gone}:`", f"rank {gone}", name),
        ),
        guard=(True,),
        sizes=(size,),
        times=1,
    )


def missing_unguarded(name: str, gone: int, waiting: list[int]) -> Row:
    """Return a fault in which gloo lets some ranks of three end without the third.

    waiting: the ranks that do wait.
    """
    call, shown = CALLS[name]
    who = Who(waiting)
    states = {
        waiting[0]: f"[{who}] {who.wait} in {shown} at line 3 {{patience}}",
        gone: f"[rank {gone}] finished without calling it",
    }
    states.update({r: f"[rank {r}] finished" for r in {0, 1, 2} - {gone, *waiting}})
    return Row(
        f"rank {gone} misses {name}, unguarded",
        f"if rank != {gone}:\n    {call}",
        stuck(
            f"{who} {who.wait} for rank {gone}",
            *[states[r] for r in sorted(states)],
            cause=under(3, f"`if rank != {gone}:`", f"rank {gone}", name),
        ),
        guard=(False,),
        times=1,
    )


MISSING = [
    *[
        missing(n, r, size)
        for size in (2, 3, 4)
        for n in EVERYWHERE
        for r in range(size)
    ],
    *[missing(n, r, 3) for n in CALLS if n not in EVERYWHERE for r in (0, 2)],
    missing_unguarded("broadcast", 0, [1, 2]),
    missing_unguarded("broadcast", 1, [0]),
    missing_unguarded("broadcast", 2, [0]),
    missing_unguarded("all_gather", 0, [1, 2]),
    missing_unguarded("all_gather", 1, [0, 2]),
    missing_unguarded("gather", 0, [1, 2]),
    missing_unguarded("gather", 2, [0]),
    missing_unguarded("scatter", 0, [1, 2]),
    missing_unguarded("scatter", 1, [0]),
    missing_unguarded("barrier", 0, [1, 2]),
    missing_unguarded("all_reduce", 2, [0, 1]),
    missing_unguarded("all_gather_object", 1, [0, 2]),
    missing_unguarded("broadcast_object_list", 0, [1, 2]),
]

SWAPPED = """\
if rank == 0:
    dist.all_reduce(x)
    dist.barrier()
else:
    dist.barrier()
    dist.all_reduce(x)"""
ALIKE = """\
a, b = room(), room()
for out, value in [(a, 10), (b, 20)] if rank == 0 else [(b, 20), (a, 10)]:
    dist.all_gather(out, torch.full((2,), value + rank))
[int(t[0]) for t in a]"""
UNLIKE = """\
y = torch.arange(6.).reshape((2, 3) if rank == 0 else (3, 2))
parts = room(y)
dist.all_gather(parts, y)
parts[0].tolist()"""
LONGER = "y = torch.ones(8 if rank == 0 else 2)\ndist.broadcast(y, src=0)"
FLOATS = """\
y = torch.ones(2, dtype=torch.float32 if rank == 0 else torch.int32)
dist.broadcast(y, src=0)
y.tolist()"""
DISAGREE = "[{all}] the ranks disagree on the %s of %s, so it did not run\n  "
NO_SECOND_WAY = (
    "{rest} ended the call in which rank 0 waits: the ranks may disagree on "
    "shape or dtype"
)

MISMATCHES = [
    Row(
        "different operations",
        SWAPPED,
        DISAGREE
        % ("operation", "a collective")
        + "rank  operation   reduction  shape  dtype  line\n"
        "  0     all_reduce  SUM        (2,)   int64  3\n"
        "  1     barrier                              6\n"
        "  2     barrier                              6",
        guard=(True,),
    ),
    Row(
        "different operations, unguarded",
        SWAPPED,
        stuck(
            "{all} wait for one another",
            "[rank 0] waits in all_reduce at line 3 {patience}",
            "[{rest}] {rest.wait} in barrier at line 6 {patience}",
            cause="the ranks call collectives in a different order: rank 0 is in "
            "all_reduce at line 3, rank 1 is in barrier at line 6",
        ),
        guard=(False,),
        sizes=(2, 3, 4),
        times=1,
    ),
    Row(
        "the same operation in another order is silent",
        ALIKE,
        said="[rank 0] [10, 21, 22]\n[ranks 1–2] [20, 11, 12]",
    ),
    Row(
        "shapes",
        UNLIKE,
        DISAGREE % ("shape", "all_gather") + "rank  operation   shape   dtype    line\n"
        "  0     all_gather  (2, 3)  float32  4\n"
        "  1     all_gather  (3, 2)  float32  4\n"
        "  2     all_gather  (3, 2)  float32  4",
        guard=(True,),
    ),
    Row(
        "shapes of as many elements, unguarded, are silent",
        UNLIKE,
        said="[rank 0] [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]\n"
        "[ranks 1–2] [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]",
        guard=(False,),
    ),
    Row(
        "a longer source",
        LONGER,
        DISAGREE
        % ("shape", "broadcast")
        + "rank  operation  root  shape  dtype    line\n"
        "  0     broadcast  0     (8,)   float32  3\n"
        "  1     broadcast  0     (2,)   float32  3\n"
        "  2     broadcast  0     (2,)   float32  3",
        guard=(True,),
    ),
    Row(
        "a longer source, unguarded, aborts the other rank",
        LONGER,
        died(
            1,
            "signal 6, SIGABRT",
            "terminate called after throwing an instance of 'gloo::EnforceNotMet'",
            "what():  op.preamble.length <= op.nbytes. 32 vs 8. Received data size "
            "doesn't match expected size. Is there a distributed collective mismatch "
            "in your code?",
            "Fatal Python error: Aborted",
            "at line 3 of the cell",
        ),
        lost=1,
        dies=True,
        guard=(False,),
        sizes=(2,),
    ),
    Row(
        "dtypes",
        FLOATS,
        DISAGREE
        % ("dtype", "broadcast")
        + "rank  operation  root  shape  dtype    line\n"
        "  0     broadcast  0     (2,)   float32  3\n"
        "  1     broadcast  0     (2,)   int32    3\n"
        "  2     broadcast  0     (2,)   int32    3",
        guard=(True,),
    ),
    Row(
        "dtypes of one width, unguarded, are silent",
        FLOATS,
        said="[rank 0] [1.0, 1.0]\n[ranks 1–2] [1065353216, 1065353216]",
        guard=(False,),
    ),
    Row(
        "roots",
        "dist.broadcast(x, src=rank)",
        DISAGREE % ("root", "broadcast") + "rank  operation  root  shape  dtype  line\n"
        "  0     broadcast  0     (2,)   int64  2\n"
        "  1     broadcast  1     (2,)   int64  2\n"
        "  2     broadcast  2     (2,)   int64  2",
        guard=(True,),
    ),
    Row(
        "roots, unguarded",
        "dist.broadcast(x, src=rank)",
        stuck(
            "{all} wait for one another",
            "[rank 0] waits in broadcast(src=0) at line 2 {patience}",
            "[rank 1] waits in broadcast(src=1) at line 2 {patience}",
            "[rank 2] waits in broadcast(src=2) at line 2 {patience}",
            cause="the ranks disagree on the root: rank 0 names 0, rank 1 names 1, "
            "rank 2 names 2",
        ),
        guard=(False,),
    ),
]

PAIR = "pair = dist.new_group([0, 1])\n"
GROUPS = [
    Row(
        "a member of a sub-group is missing",
        PAIR + "if rank == 0:\n    dist.all_reduce(x, group=pair)",
        stuck(
            "rank 0 waits for rank 1",
            "[rank 0] waits in all_reduce(group of ranks 0–1) at line 4 {patience}",
            "[rank 1] finished without calling it",
            "[rank 2] finished",
            cause=under(4, "`if rank == 0:`", "rank 1", "all_reduce"),
            done=SUBGROUPS,
        ),
    ),
    Row(
        "different groups",
        PAIR + "dist.all_reduce(x, group=pair if rank == 0 else None)",
        stuck(
            "{all} wait for one another",
            "[rank 0] waits in all_reduce(group of ranks 0–1) at line 3 {patience}",
            "[{rest}] {rest.wait} in all_reduce at line 3 {patience}",
            cause="the ranks call the collective on different groups",
            done=SUBGROUPS,
        ),
        sizes=(3, 4),
        times=1,
    ),
    Row(
        "new_group on one rank only",
        "if rank == 0:\n    dist.new_group([0, 1])",
        stuck(
            "rank 0 waits for {rest}",
            "[rank 0] waits in new_group at line 3 {patience}",
            "[{rest}] finished",
            cause="line 3 stands under `if rank == 0:`, so {rest} never came to "
            "new_group; every rank has to call it",
            done=replaced(0),
        ),
        lost=0,
        times=1,
    ),
    Row(
        "a root outside the group",
        "pair = dist.new_group([1, 2])\ntry:\n    if rank > 0:\n"
        "        dist.broadcast(x, src=0, group=pair)\n"
        "finally:\n    dist.destroy_process_group(pair)",
        "[ranks 1–2] ValueError at line 5: dist.broadcast(x, src=0, group=pair)\n"
        "  Global rank 0 is not part of group "
        "<torch.distributed.distributed_c10d.ProcessGroup>",
    ),
]

FEWER = "the loop at line {} makes more rounds on {} than on {}"
LOOPS = [
    Row(
        "one more round of for",
        "for step in range(2 + (rank == 0)):\n    dist.all_reduce(x)",
        stuck(
            "rank 0 waits for {rest}",
            "[rank 0] waits in all_reduce at line 3 {patience}",
            "[{rest}] finished without calling it",
            cause=FEWER.format(2, "rank 0", "{rest}"),
        ),
        sizes=(2, 3, 4),
    ),
    Row(
        "one round of while too few",
        "steps = 0\nwhile steps < 3 - (rank == 1):\n    dist.barrier()\n    steps += 1",
        stuck(
            "{others} wait for rank 1",
            "[{others}] wait in barrier at line 4 {patience}",
            "[rank 1] finished without calling it",
            cause=FEWER.format(3, "{others}", "rank 1"),
        ),
    ),
    Row(
        "a rank that sleeps longer than the patience",
        "if rank == 0:\n    time.sleep(1.2)\ndist.barrier()",
        times=1,
    ),
    Row(
        "a rank that computes longer than the patience",
        "if rank == 1:\n    end = time.monotonic() + 1.2\n"
        "    while time.monotonic() < end:\n        pass\ndist.all_reduce(x)",
        times=1,
    ),
    Row(
        "a rank that holds the interpreter's lock",
        "if rank == 1:\n    sum(range(10 ** 8))\ndist.barrier()",
        times=1,
    ),
    Row(
        "a send that comes late",
        "if rank == 0:\n    time.sleep(1.2)\n    dist.send(x, dst=1)\n"
        "elif rank == 1:\n    dist.recv(x, src=0)",
        times=1,
    ),
]

FUNCTION = """\
def meet():
    dist.barrier()
if rank == 0:
    meet()"""
ERRORS = [
    Row(
        "an error on one rank",
        "if rank == 1:\n    raise ValueError('no data here')\n"
        "dist.all_gather(room(), x)",
        "[rank 1] ValueError at line 3: raise ValueError('no data here')\n"
        "  no data here\n"
        "  [{others}] {others.wait} in all_gather at line 4\n" + REPAIRED,
        sizes=(2, 3, 4),
    ),
    Row(
        "an error that the cell catches",
        "try:\n    if rank == 1:\n        raise ValueError\n    dist.barrier()\n"
        "except ValueError:\n    pass",
        stuck(
            "{others} wait for rank 1",
            "[{others}] wait in barrier at line 5 {patience}",
            "[rank 1] finished without calling it",
            cause="rank 1 left before barrier at line 4, under `if rank == 1:`",
        ),
    ),
    Row(
        "an error in a function of another cell",
        "halve(2 - rank)\ndist.barrier()",
        "[rank 2] ZeroDivisionError at line 2: halve(2 - rank)\n"
        "  in halve, line 3: return 1 / n\n"
        "  division by zero\n"
        "  [ranks 0–1] wait in barrier at line 3\n" + REPAIRED,
    ),
    Row(
        "a call in a function under if",
        FUNCTION,
        stuck(
            "rank 0 waits for {rest}",
            "[rank 0] waits in barrier at line 3 {patience}",
            "[{rest}] finished without calling it",
            cause=under(5, "`if rank == 0:`", "{rest}", "barrier"),
        ),
    ),
    Row(
        "a call in a function of another cell",
        "if rank == 0:\n    meet_elsewhere()",
        stuck(
            "rank 0 waits for {rest}",
            "[rank 0] waits in barrier at line 3 {patience}",
            "[{rest}] finished without calling it",
            cause=under(3, "`if rank == 0:`", "{rest}", "barrier"),
        ),
    ),
    Row(
        "a call in else",
        "if rank == 0:\n    y = 1\nelse:\n    dist.barrier()",
        stuck(
            "{rest} {rest.wait} for rank 0",
            "[rank 0] finished without calling it",
            "[{rest}] {rest.wait} in barrier at line 5 {patience}",
            cause=under(5, "the else of `if rank == 0:`", "rank 0", "barrier"),
        ),
        sizes=(2, 3, 4),
        times=1,
    ),
    Row(
        "SystemExit",
        "if rank == 1:\n    sys.exit('enough')\ndist.barrier()",
        "[rank 1] SystemExit at line 3: sys.exit('enough')\n  enough\n"
        "  [{others}] wait in barrier at line 4\n" + REPAIRED,
        guard=(True,),
        times=1,
    ),
    Row(
        "out of memory",
        "if rank == 1:\n"
        "    pages = int(open('/proc/self/statm').read().split()[0])\n"
        "    limit = 4096 * pages + 2 ** 29\n"
        "    _, most = resource.getrlimit(resource.RLIMIT_AS)\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (limit, most))\n"
        "    try:\n"
        "        y = bytearray(2 ** 33)\n"
        "    finally:\n"
        "        resource.setrlimit(resource.RLIMIT_AS, (most, most))\n"
        "dist.barrier()",
        "[rank 1] MemoryError at line 8: y = bytearray(2 ** 33)\n"
        "  [{others}] wait in barrier at line 11\n" + REPAIRED,
    ),
]

DEATHS = [
    Row(
        "os._exit",
        "if rank == 1:\n    os._exit(3)\ndist.barrier()",
        died(1, "exit code 3"),
        lost=1,
        dies=True,
        sizes=(2, 3, 4),
    ),
    Row(
        "SIGKILL of rank 0",
        "if rank == 0:\n    os.kill(os.getpid(), signal.SIGKILL)\ndist.all_reduce(x)",
        died(0, "signal 9, SIGKILL"),
        lost=0,
        dies=True,
    ),
    Row(
        "SIGKILL while nobody waits",
        "if rank == 2:\n    os.kill(os.getpid(), signal.SIGKILL)",
        died(2, "signal 9, SIGKILL"),
        lost=2,
        dies=True,
        guard=(True,),
    ),
    Row(
        "SIGABRT",
        "if rank == 1:\n    os.abort()\ndist.barrier()",
        died(
            1,
            "signal 6, SIGABRT",
            "Fatal Python error: Aborted",
            LINE := "at line 3 of the cell",
        ),
        lost=1,
        dies=True,
    ),
    Row(
        "SIGSEGV",
        "if rank == 1:\n    os.kill(os.getpid(), signal.SIGSEGV)\ndist.barrier()",
        died(1, "signal 11, SIGSEGV", "Fatal Python error: Segmentation fault", LINE),
        lost=1,
        dies=True,
        guard=(True,),
    ),
    Row(
        "SIGSTOP",
        "if rank == 1:\n    os.kill(os.getpid(), signal.SIGSTOP)\ndist.barrier()",
        stuck(
            "{others} {others.wait} for rank 1",
            "[{others}] {others.wait} in barrier at line 4 {patience}",
            "[rank 1] is stopped and cannot answer",
            cause="rank 1 was stopped from outside, as by SIGSTOP",
            done=replaced(1),
        ),
        lost=1,
        times=1,
    ),
    Row(
        "SIGSTOP while nobody waits",
        "if rank == 1:\n    os.kill(os.getpid(), signal.SIGSTOP)",
        stuck(
            "rank 1 does not go on",
            "[{others}] finished",
            "[rank 1] is stopped and cannot answer",
            done=replaced(1),
        ),
        lost=1,
        guard=(True,),
        times=1,
    ),
]

MESSAGES = [
    Row(
        "recv without send",
        "if rank == 0:\n    dist.recv(x, src=1)",
        stuck(
            "rank 0 waits for rank 1",
            "[rank 0] waits in recv(src=1) at line 3 {patience}",
            "[{rest}] finished",
            cause="rank 0 expects that rank 1 sends, which it never does",
        ),
        sizes=(2, 3, 4),
    ),
    Row(
        "recv from any rank",
        "if rank == 0:\n    dist.recv(x)",
        stuck(
            "rank 0 waits for {rest}",
            "[rank 0] waits in recv at line 3 {patience}",
            "[{rest}] finished",
            cause="rank 0 receives from any rank, and none sends",
            done=replaced(0),
        ),
        lost=0,
        guard=(True,),
        times=1,
    ),
    Row(
        "everyone receives first",
        "dist.recv(x, src=(rank - 1) % world_size)\n"
        "dist.send(x, dst=(rank + 1) % world_size)",
        stuck(
            "{all} wait for one another",
            "[rank 0] waits in recv(src=2) at line 2 {patience}",
            "[rank 1] waits in recv(src=0) at line 2 {patience}",
            "[rank 2] waits in recv(src=1) at line 2 {patience}",
            cause="every rank receives first, so nobody comes to its send",
        ),
    ),
    Row(
        "everyone sends first",
        "big = torch.zeros(2 ** 22)\n"
        "dist.send(big, dst=(rank + 1) % world_size)\n"
        "dist.recv(big, src=(rank - 1) % world_size)",
        stuck(
            "{all} wait for one another",
            "[rank 0] waits in send(dst=1) at line 3 {patience}",
            "[rank 1] waits in send(dst=2) at line 3 {patience}",
            "[rank 2] waits in send(dst=0) at line 3 {patience}",
            cause="every rank sends first, so nobody comes to its recv",
        ),
    ),
    Row(
        "a large send without recv",
        "if rank == 0:\n    dist.send(torch.zeros(2 ** 22), dst=1)",
        stuck(
            "rank 0 waits for rank 1",
            "[rank 0] waits in send(dst=1) at line 3 {patience}",
            "[{rest}] finished",
            cause="rank 0 expects that rank 1 receives, which it never does",
        ),
    ),
    Row(
        "a message against a collective",
        "if rank == 0:\n    dist.recv(x, src=1)\nelse:\n    dist.all_gather(room(), x)",
        stuck(
            "{all} wait for one another",
            "[rank 0] waits in recv(src=1) at line 3 {patience}",
            "[{rest}] {rest.wait} in all_gather at line 5 {patience}",
            cause="rank 0 expects that rank 1 sends, but rank 1 waits in all_gather "
            "at line 5",
        ),
        sizes=(2, 3),
        times=1,
    ),
]

NO_PART = (
    "line {} stands under `if rank == 0:`, so {{rest}} took no part in what is "
    "waited for"
)


def waits_for_work(name: str, cell: str, line: int, call: str, **more) -> Row:
    """Return a fault in which rank 0 waits for async work that nobody joins."""
    return Row(
        name,
        cell,
        stuck(
            "rank 0 waits for {rest}",
            f"[rank 0] waits in {call} at line {line} {{patience}}",
            "[{rest}] finished",
            cause=NO_PART.format(line),
        ),
        **more,
    )


WORK = [
    waits_for_work(
        "async collective, unguarded",
        "if rank == 0:\n"
        "    work = dist.all_gather(room(), x, async_op=True)\n"
        "    work.wait()",
        4,
        "work.wait",
        guard=(False,),
    ),
    Row(
        "async collective",
        "if rank == 0:\n    dist.all_gather(room(), x, async_op=True).wait()",
        stuck(
            "rank 0 waits for {rest}",
            "[rank 0] waits in all_gather at line 3 {patience}",
            "[{rest}] finished without calling it",
            cause=under(3, "`if rank == 0:`", "{rest}", "all_gather"),
        ),
        guard=(True,),
    ),
    waits_for_work(
        "irecv",
        "if rank == 0:\n    work = dist.irecv(x, src=1)\n    work.wait()",
        4,
        "work.wait",
    ),
    waits_for_work(
        "isend of a large tensor",
        "if rank == 0:\n"
        "    work = dist.isend(torch.zeros(2 ** 22), dst=1)\n"
        "    work.wait()",
        4,
        "work.wait",
        guard=(True,),
        times=1,
    ),
    waits_for_work(
        "a list of works",
        "if rank == 0:\n"
        "    works = [dist.irecv(x, src=1), dist.irecv(x.clone(), src=1)]\n"
        "    for work in works:\n"
        "        work.wait()",
        5,
        "work.wait",
        guard=(True,),
        times=1,
    ),
    waits_for_work(
        "a list of works in a comprehension",
        "if rank == 0:\n"
        "    works = [dist.irecv(x, src=1), dist.irecv(x.clone(), src=1)]\n"
        "    [work.wait() for work in works]",
        4,
        "work.wait",
        guard=(True,),
        times=1,
    ),
    waits_for_work(
        "a work from a list",
        "if rank == 0:\n"
        "    works = dist.batch_isend_irecv([dist.P2POp(dist.irecv, x, 1)])\n"
        "    works[0].wait()",
        4,
        "works[0].wait",
        guard=(True,),
        times=1,
    ),
    Row(
        "a collective in a thread that is joined",
        "if rank == 0:\n"
        "    thread = threading.Thread(target=dist.barrier)\n"
        "    thread.start()\n"
        "    thread.join()",
        stuck(
            "rank 0 waits for {rest}",
            "[rank 0] waits in barrier at line 5 {patience}",
            "[{rest}] finished without calling it",
            cause=under(5, "`if rank == 0:`", "{rest}", "barrier"),
        ),
    ),
    Row(
        "monitored_barrier",
        "if rank != 1:\n    dist.monitored_barrier()",
        stuck(
            "{others} wait for rank 1",
            "[{others}] wait in monitored_barrier at line 3 {patience}",
            "[rank 1] finished without calling it",
            cause=under(3, "`if rank != 1:`", "rank 1", "monitored_barrier"),
        ),
    ),
    Row(
        "--targets leaves a rank out",
        "dist.broadcast(x, src=0)",
        stuck(
            "rank 0 waits for {rest}",
            "[rank 0] waits in broadcast(src=0) at line 2 {patience}",
            "[{rest}] did not run this cell",
            cause="the cell ran on rank 0 only (--targets), and a collective needs "
            "every rank of its group",
        ),
        targets="0",
        sizes=(2, 3, 4),
        times=1,
    ),
    Row(
        "what ranks printed before is shown",
        "print('begun')\nif rank == 0:\n    dist.barrier()",
        stuck(
            "rank 0 waits for {rest}",
            "[rank 0] waits in barrier at line 4 {patience}",
            "[{rest}] finished without calling it",
            cause=under(4, "`if rank == 0:`", "{rest}", "barrier"),
        ),
        said="[ranks 0–2] begun",
        guard=(True,),
        times=1,
    ),
]

ROWS = [
    *MISSING,
    *MISMATCHES,
    *GROUPS,
    *LOOPS,
    *ERRORS,
    *DEATHS,
    *MESSAGES,
    *WORK,
]
