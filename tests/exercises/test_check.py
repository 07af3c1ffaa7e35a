"""What `check` says of right and wrong answers, on real ranks."""

import re
import signal
import threading

import pytest

from course_utils import check, launch
from course_utils.exercises import trial
from course_utils.text.errors import RankError

SHORT = 2  # seconds that a hanging answer waits
ENV = "import os, sys, time\nimport torch\nimport torch.distributed as dist\n"


def define(ranks, source: str) -> None:
    ranks.view.execute(ENV + source, block=True)


def gather(body: str, name: str = "gather_all") -> str:
    """Return a function of a shard, with rank and world size at hand."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return (
        f"def {name}(shard):\n"
        "    rank, world_size = dist.get_rank(), dist.get_world_size()\n"
        f"    full = [torch.empty_like(shard) for _ in range(world_size)]\n{lines}\n"
    )


def ring(body: str) -> str:
    """Return a ring with its own shard in place, and `body` for every round."""
    rounds = "\n".join(f"    {line}" for line in body.splitlines())
    return gather(
        "full[rank].copy_(shard)\n"
        "after, before = (rank + 1) % world_size, (rank - 1) % world_size\n"
        f"for i in range(world_size - 1):\n{rounds}\nreturn full",
        "ring_all_gather",
    )


RANK = 'int(os.environ["RANK"])'
SIZE = 'int(os.environ["WORLD_SIZE"])'
BRING_UP = (
    "def bring_up(path):\n"
    '    dist.init_process_group("gloo", {})\n'
    "    return dist.get_rank(), dist.get_world_size()"
)
FILE = f'init_method=f"file://{{path}}", rank={RANK}, world_size={SIZE}'
PAIRS = (
    "def pair_group():\n"
    "    rank, world_size = dist.get_rank(), dist.get_world_size()\n"
    "    group = dist.new_group({})\n"
    "    return {}"
)
EVEN = "range(0, world_size, 2)"
PLACE = "(-1, 0) if rank % 2 else (dist.get_rank(group), dist.get_world_size(group))"
ALL = "dist.all_gather(full, shard)\n"
GATHER = gather(ALL + "return full")
SWAP = (
    "sent = dist.isend(full[(rank - i) % world_size], after)\n"
    "dist.recv(full[(rank - i - 1) % world_size], before)\n"
    "sent.wait()"
)

RIGHT = [
    ("1.1", f"def introduce():\n    return {RANK}, os.getpid()"),
    ("1.1", "introduce = lambda: (dist.get_rank(), os.getpid())"),
    ("2.1", BRING_UP.format(FILE)),
    (
        "2.1",
        BRING_UP.format(
            f"store=dist.FileStore(path, {SIZE}), rank={RANK}, world_size={SIZE}"
        ),
    ),
    ("2.2", PAIRS.format(f"list({EVEN})", PLACE)),
    ("2.2", PAIRS.format(f"ranks={EVEN}", PLACE)),
    ("3.1", gather(ALL + "return full")),
    (
        "3.1",
        gather(
            "full = shard.new_empty(world_size * shard.numel())\n"
            "dist.all_gather_single(full, shard.flatten())\n"
            "return [part.reshape(shard.shape) for part in full.chunk(world_size)]"
        ),
    ),
    ("3.2", ring(SWAP)),
    ("3.2", ring(SWAP).replace("full[rank].copy_(shard)", "full[rank] = shard")),
    (
        "3.2",
        ring(
            "send = dist.P2POp(dist.isend, full[(rank - i) % world_size], after)\n"
            "take = dist.P2POp(dist.irecv, full[(rank - i - 1) % world_size], before)\n"
            "for work in dist.batch_isend_irecv([send, take]):\n"
            "    work.wait()"
        ),
    ),
    (
        "3.2",
        ring(
            "def send():\n"
            "    dist.send(full[(rank - i) % world_size], after)\n"
            "if rank:\n"
            "    dist.recv(full[(rank - i - 1) % world_size], before)\n"
            "send()\n"
            "if not rank:\n"
            "    dist.recv(full[(rank - i - 1) % world_size], before)"
        ),
    ),
]
CORRECT = {
    "1.1": "1.1 correct: 2 cases on worlds of 2 and 4 ranks",
    "2.1": "2.1 correct: 4 cases on worlds of 1, 2, 3 and 4 ranks",
    "2.2": "2.2 correct: 4 cases on worlds of 1, 2, 3 and 4 ranks",
    "3.1": "3.1 correct: 9 cases on worlds of 2, 3 and 4 ranks",
    "3.2": "3.2 correct: 9 cases on worlds of 2, 3 and 4 ranks",
}

STUBS = [
    ("1.1", "introduce", ""),
    ("2.1", "bring_up", "path"),
    ("2.2", "pair_group", ""),
    ("3.1", "gather_all", "shard"),
    ("3.2", "ring_all_gather", "shard"),
]

WRONG = [
    # 1.1
    ("1.1", "introduce = lambda: (0, 4242)", "Every rank says the same"),
    ("1.1", f"introduce = lambda: ({RANK}, os.getppid())", "not that of rank 0's"),
    ("1.1", f"introduce = lambda: ({RANK}, str(os.getpid()))", "The pid is text"),
    ("1.1", 'introduce = lambda: (os.environ["RANK"], os.getpid())', "rank is text"),
    ("1.1", f"introduce = lambda: (os.getpid(), {RANK})", "in the other order"),
    ("1.1", f"introduce = lambda: ({RANK} + 1, os.getpid())", "rank 0 calls itself 1"),
    ("1.1", f"introduce = lambda: {RANK}", "is a number, where a tuple of 2"),
    # 2.1
    ("2.1", BRING_UP.format(""), "not at the path"),
    ("2.1", BRING_UP.format('init_method="env://"'), "not at the path"),
    (
        "2.1",
        BRING_UP.format(FILE).replace("{path}", "{path}-mine"),
        None,  # the path is part of it: an answer as good as any
    ),
    (
        "2.1",
        f"def bring_up(path):\n    return {RANK}, {SIZE}",
        "No process group was initialised on ranks 0–3",
    ),
    (
        "2.1",
        "def bring_up(path):\n    return dist.get_rank(), dist.get_world_size()",
        "No process group was initialised on ranks 0–3",
    ),
    (
        "2.1",
        BRING_UP.format(FILE).replace("dist.get_rank(), dist.get_world_size()", "None"),
        "Ranks 0–3 returned None",
    ),
    (
        "2.1",
        BRING_UP.format(FILE).replace(
            "dist.get_rank(), dist.get_world_size()",
            "dist.get_world_size(), dist.get_rank()",
        ),
        "Rank and world size are in the other order",
    ),
    (
        "2.1",
        BRING_UP.format(FILE)
        .replace("    return", "    dist.destroy_process_group()\n    return")
        .replace("dist.get_rank(), dist.get_world_size()", f"{RANK}, {SIZE}"),
        "no process group is left after the call",
    ),
    # 2.2
    (
        "2.2",
        "def pair_group():\n"
        "    if dist.get_rank() % 2:\n"
        "        return -1, 0\n"
        "    group = dist.new_group(list(range(0, dist.get_world_size(), 2)))\n"
        "    return dist.get_rank(group), dist.get_world_size(group)",
        "Ranks 1, 3 never called new_group",
    ),
    ("2.2", PAIRS.format("range(world_size)", PLACE), "put ranks 1, 3 into the group"),
    ("2.2", PAIRS.format("", PLACE), "without naming its ranks"),
    (
        "2.2",
        PAIRS.format(f"list({EVEN})", PLACE.replace("get_rank(group)", "get_rank()")),
        "2 is the rank in the whole world",
    ),
    (
        "2.2",
        PAIRS.format(
            f"list({EVEN})", "dist.get_rank(group), dist.get_world_size(group)"
        ),
        "Rank 1 is not in the group and returned (-1, -1)",
    ),
    (
        "2.2",
        "def pair_group():\n"
        "    rank, size = dist.get_rank(), dist.get_world_size()\n"
        "    return (-1, 0) if rank % 2 else (rank // 2, (size + 1) // 2)",
        "No sub-group was made",
    ),
    ("2.2", PAIRS.format("[0, 2]", PLACE), "right on 3 and 4 ranks and wrong on 2"),
    # 3.1
    (
        "3.1",
        gather("full = [torch.empty_like(shard)] * world_size\n" + ALL + "return full"),
        "same buffer",
    ),
    ("3.1", gather(ALL + "return [full[1]] * world_size"), "same buffer"),
    ("3.1", gather(ALL + "full[rank] = shard\nreturn full"), "shares memory with the"),
    ("3.1", gather(ALL + "return torch.stack(full)"), "is a tensor of shape (4, 2)"),
    ("3.1", gather(ALL + "return full[::-1]"), "ranks 3, 2, 1, 0, in this order"),
    (
        "3.1",
        gather(ALL + "return full[rank:] + full[:rank]"),
        "starts with the rank's own shard",
    ),
    ("3.1", gather(ALL + "return full[:-1]"), "has 3 items; expected are 4"),
    ("3.1", gather("return [shard.clone() for _ in full]"), "is rank 0's shard"),
    ("3.1", gather("return [torch.zeros_like(t) for t in full]"), "is all zeros"),
    (
        "3.1",
        gather(
            "dist.gather(shard, full if rank == 0 else None)\n"
            "return full if rank == 0 else None"
        ),
        "Only rank 0 returns the result",
    ),
    (
        "3.1",
        gather(
            "full = [torch.zeros_like(shard) for _ in full]\n"
            "dist.gather(shard, full if rank == 0 else None)\nreturn full"
        ),
        "Only rank 0 has the right result",
    ),
    (
        "3.1",
        gather(ALL + "return full if rank != 2 else None"),
        "Rank 2 returned None: not every way",
    ),
    (
        "3.1",
        gather(ALL + "return [t.float() for t in full]"),
        "dtype has changed: float32, where int64",
    ),
    (
        "3.1",
        gather(ALL + "return [t.reshape(-1, 1) for t in full]"),
        "shape has changed: (2, 1), where (2,)",
    ),
    (
        "3.1",
        gather(
            "full = [torch.empty(shard.shape, dtype=torch.int64) for _ in full]\n"
            + ALL
            + "return full"
        ),
        "right for shards (2,) int64 and wrong for (2, 3) float32",
    ),
    ("3.1", gather(ALL + "shard.zero_()\nreturn full"), "changed its input"),
    (
        "3.1",
        gather(
            "full = [torch.empty_like(shard) for _ in range(4)]\n" + ALL + "return full"
        ),
        "right on 4 ranks and wrong on 3",
    ),
    (
        "3.1",
        "n = dist.get_world_size()\n"
        + gather(
            "full = [torch.empty_like(shard) for _ in range(n)]\n" + ALL + "return full"
        ),
        "The function reads `n`, which is 4 in the notebook, but this world has 3",
    ),
    (
        "3.1",
        gather(
            "full = [torch.empty(2 + (rank == 1), dtype=shard.dtype) for _ in full]\n"
            "dist.all_gather(full, full[0].clone())\nreturn full"
        ),
        "do not agree on one collective",
    ),
    # 3.2
    (
        "3.2",
        gather(ALL + "return full", "ring_all_gather"),
        "calls all_gather; this exercise",
    ),
    (
        "3.2",
        "from torch.distributed import all_gather_object as innocent\n"
        + gather("innocent(full, shard)\nreturn full", "ring_all_gather"),
        "calls all_gather_object",
    ),
    (
        "3.2",
        ring(SWAP.replace("full[(rank - i) % world_size]", "shard")),
        "sent its own again, not the one it had received",
    ),
    (
        "3.2",
        ring(SWAP).replace("return full", "return full[:1] + full[1:][::-1]"),
        "Rank 0's list has every shard",
    ),
    (
        "3.2",
        ring(
            "new = torch.empty_like(shard)\n"
            "sent = dist.isend(last if i else shard, after)\n"
            "dist.recv(new, before)\n"
            "sent.wait()\n"
            "last = full[(rank + i + 1) % world_size] = new"
        ),
        "wrong direction round the ring",
    ),
    (
        "3.2",
        ring(
            "new = torch.empty_like(shard)\n"
            "sent = dist.isend(last if i else shard, after)\n"
            "dist.recv(new, before)\n"
            "sent.wait()\n"
            "last = new\n"
            "full[(rank - i - 2) % world_size] = new"
        ),
        "stored one place off",
    ),
    (
        "3.2",
        ring(
            SWAP.replace("after)", "BEFORE)")
            .replace("before)", "after)")
            .replace("BEFORE", "before")
            .replace("rank - i", "rank + i")
            .replace("- 1)", "+ 1)")
        ),
        "Rank 0 sends to rank 3; the next in the ring is 1",
    ),
]

HANGS = [
    (
        "2.1",
        BRING_UP.format(FILE.replace(SIZE, "4")),
        "right on 4 ranks and wrong on 3",
    ),
    ("2.1", BRING_UP.format(FILE.replace(RANK, "0")), "Rank 1 joined as rank 0"),
    (
        "2.1",
        BRING_UP.format(FILE.replace(SIZE, f"{SIZE} + 1")),
        "The world to join has 4 ranks, not 5",
    ),
    (
        "3.1",
        gather(f"if rank == 0:\n    {ALL}return full"),
        "ranks 1–3 returned without calling it.",
    ),
    (
        "3.1",
        gather(f"if rank == 2:\n    full[9]\n{ALL}return full"),
        "Rank 2 failed, and so ranks 0–1, 3 waited in all_gather in vain",
    ),
    (
        "3.2",
        ring(
            "dist.recv(full[(rank - i - 1) % world_size], before)\n"
            "dist.send(full[(rank - i) % world_size], after)"
        ),
        "Every rank waits to receive",
    ),
    (
        "3.2",
        ring(
            "dist.send(full[(rank - i) % world_size], after)\n"
            "dist.recv(full[(rank - i - 1) % world_size], before)"
        ),
        "Every rank waits until its message is taken",
    ),
    (
        "3.1",
        gather("while rank == 1:\n    time.sleep(0.01)\n    rank = 1\n"),
        "Rank 1 never came to an end",
    ),
]


LOOK = "seen = dist.is_initialized(), hasattr(dist.all_gather, 'unguarded')"
STUBBORN = """
def gather_all(shard):
    while dist.get_rank() == 1:
        try:
            time.sleep(0.1)
        except BaseException:
            pass
"""


def ids(table: list) -> list[str]:
    return [f"{row[0]}-{i}" for i, row in enumerate(table)]


@pytest.mark.parametrize(("exercise", "source"), RIGHT, ids=ids(RIGHT))
def test_right(ranks, exercise, source):
    define(ranks, source)
    verdict = check(exercise, ranks)
    assert repr(verdict) == CORRECT[exercise]
    assert verdict


@pytest.mark.parametrize(("exercise", "name", "argument"), STUBS, ids=ids(STUBS))
def test_stub(ranks, exercise, name, argument):
    define(ranks, f"def {name}({argument}):\n    return None")
    verdict = check(exercise, ranks)
    assert repr(verdict) == f"{exercise} not started: {name} returns None"
    assert not verdict


@pytest.mark.parametrize(("exercise", "source", "hint"), WRONG, ids=ids(WRONG))
def test_wrong(ranks, exercise, source, hint):
    define(ranks, source)
    verdict = check(exercise, ranks)
    print(verdict)
    if hint is None:
        assert verdict
        return
    assert not verdict
    assert hint in verdict.why
    assert re.match(rf"{exercise} \w+ on a world of \d ranks?", verdict.text)


@pytest.mark.parametrize(("exercise", "source", "hint"), HANGS, ids=ids(HANGS))
def test_hang(ranks, exercise, source, hint):
    """It ends by itself, and the next attempt works."""
    define(ranks, source)
    verdict = check(exercise, ranks, timeout=SHORT)
    print(verdict)
    assert verdict.state in ("stuck", "raised")
    assert hint in verdict.why
    assert "set-up" not in verdict.text
    assert verdict.picture is None
    define(ranks, GATHER)
    assert check("3.1", ranks)


def test_text_is_the_same_on_every_run(ranks):
    for exercise, source in (
        ("1.1", f"introduce = lambda: ({RANK}, os.getppid())"),
        ("3.1", gather(ALL + "return full[::-1]")),
    ):
        define(ranks, source)
        one, other = check(exercise, ranks), check(exercise, ranks)
        assert repr(one) == repr(other)
        assert not re.search(r"\d{4}", repr(one)), "a pid, port or address"


def test_the_picture_shows_expected_beside_yours(ranks, monkeypatch):
    """Text and picture are two outputs: JupyterLab shows one form of an output."""
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda *a, **b: shown.append((a, b)))
    define(ranks, gather(ALL + "return full[::-1]"))
    verdict = check("3.1", ranks)
    verdict._ipython_display_()
    text = {"text/plain": verdict.text}
    assert shown == [((text,), {"raw": True}), ((verdict.picture,), {})]
    heading = repr(verdict).split("\n\n")[1].splitlines()[0]
    assert heading.split() == ["rank", "shard", "expected", "yours"]
    define(ranks, GATHER)
    with pytest.raises(NotImplementedError):
        check("3.1", ranks)._ipython_display_()  # IPython takes the repr


def test_the_world_of_the_learner_comes_back(ranks):
    """Default group, sub-groups and environment are as before, also after a hang."""
    define(ranks, "pair = dist.new_group([1, 3])\nsize = dist.get_world_size()")
    look = (
        "seen = [torch.zeros(1) for _ in range(size)]\n"
        "dist.all_gather(seen, torch.ones(1) * dist.get_rank())\n"
        "both = torch.ones(1)\n"
        "if dist.get_rank() % 2:\n"
        "    dist.all_reduce(both, group=pair)\n"
        f"facts = [torch.cat(seen).tolist(), both.item(), {SIZE}, dist.get_rank(pair)]"
    )
    define(ranks, look)
    before = ranks["facts"]
    for exercise, source in (RIGHT[2], ("3.1", GATHER), HANGS[-1][:2]):
        define(ranks, source)
        check(exercise, ranks, timeout=SHORT)
        define(ranks, look)
        assert ranks["facts"] == before
    assert [fact[1] for fact in before] == [1, 2, 1, 2]


def test_missing_on_some_ranks(ranks):
    define(ranks, "globals().pop('gather_all', None)")
    nowhere = check("3.1", ranks)
    assert nowhere.text.startswith(
        "3.1 cannot be checked: no rank has a function gather_all\n"
    )
    source = f"if {RANK} in (0, 2):\n    def gather_all(shard): pass"
    define(ranks, source)
    some = check("3.1", ranks)
    assert "ranks 1, 3 have no function gather_all" in some.text
    define(ranks, "gather_all = 3")
    other = check("3.1", ranks)
    assert other.why == "gather_all is no function on ranks 0–3: int."
    assert {nowhere.state, some.state, other.state} == {"missing"}


def test_interrupted_by_hand(ranks):
    define(ranks, gather("while True:\n    pass"))
    stop = threading.main_thread().ident, signal.SIGINT
    threading.Timer(1.5, signal.pthread_kill, stop).start()
    with pytest.raises(KeyboardInterrupt):
        check("3.1", ranks, timeout=30)
    define(ranks, GATHER)
    assert check("3.1", ranks)


def test_bad_calls(ranks):
    with pytest.raises(ValueError, match="'9.9'; the exercises are 1.1, 2.1, 2.2, 3.1"):
        check("9.9", ranks)
    with pytest.raises(TypeError, match="expected what launch.. returned"):
        check("3.1", [0, 1, 2, 3])


def test_a_rank_that_dies_gives_a_verdict():
    source = gather(f"if rank == 1:\n    os._exit(3)\n{ALL}return full")
    with launch(2) as two:
        define(two, source)
        verdict = check("3.1", two, timeout=SHORT)
        print(verdict)
        assert verdict.state == "died"
        assert "[rank 1] died (exit code 3)" in verdict.text
        assert verdict.why == "The function ended the process of rank 1."
        assert "Replaced: rank 1 did not survive" in verdict.text
        assert two.dead() == []
        right = gather(f"{ALL}return full")
        two.view.execute(right, block=True)  # without the imports of the lesson
        assert check("3.1", two), "the new process has the imports of the others"
    with pytest.raises(RankError, match="stopped"):
        check("3.1", two)


def test_a_rank_that_does_not_come_free_gives_a_verdict(monkeypatch):
    for limit in ("FREE", "SHORT"):
        monkeypatch.setattr(trial, limit, 3.0)
    with launch(2) as two:
        define(two, STUBBORN)
        verdict = check("3.1", two, timeout=SHORT)
        print(verdict)
        assert verdict.state == "stuck"
        assert "[rank 1] does not come free" in verdict.text
        assert "Replaced: rank 1 did not survive" in verdict.text
        define(two, gather(f"{ALL}return full"))
        assert check("3.1", two)


def test_other_sizes():
    """Fewer ranks give fewer cases; what the world had not, it has not afterwards."""
    with launch(2, init=False, guard=False) as two:
        define(two, GATHER)
        assert repr(check("3.1", two)) == "3.1 correct: 3 cases on a world of 2 ranks"
        define(two, LOOK)
        assert two["seen"] == [(False, False)] * 2
        define(two, RIGHT[2][1])
        text = "2.1 correct: 2 cases on worlds of 1 and 2 ranks"
        assert repr(check("2.1", two)) == text
        define(two, LOOK)
        assert two["seen"] == [(False, False)] * 2
    with launch(1) as one:
        define(one, RIGHT[2][1])
        assert repr(check("2.1", one)) == "2.1 correct: 1 case on a world of 1 rank"
        with pytest.raises(ValueError, match="needs 2 ranks or more"):
            check("3.2", one)
