"""The broken programs of lesson 7: what `check` says of them, and of bad repairs."""

import re

import pytest

from course_utils import check, launch

SHORT = 2  # seconds that a hanging answer waits
IMPORTS = "import os, sys, time\nimport torch\nimport torch.distributed as dist\n"


def program(head: str, body: str) -> str:
    """Return a function with rank and world size at hand."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return (
        f"{IMPORTS}def {head}:\n"
        "    rank, world_size = dist.get_rank(), dist.get_world_size()\n"
        f"{lines}\n"
    )


def mean(body: str) -> str:
    """Return `mean_of_all`; `body` begins with all shards in `buffers`."""
    gather = (
        "buffers = [torch.empty_like(shard) for _ in range(world_size)]\n"
        "dist.all_gather(buffers, shard)\n"
        "mean = torch.zeros(())\n"
    )
    return program("mean_of_all(shard)", f"{gather}{body}\nreturn mean")


def named(loop: str, result: str, before: str = "") -> str:
    """Return `gather_named`, which gathers in the order of `loop`."""
    return program(
        "gather_named(pairs)",
        f"{before}full = {{}}\n"
        f"for name, shard in {loop}:\n"
        "    buffers = [torch.empty_like(shard) for _ in range(world_size)]\n"
        "    dist.all_gather(buffers, shard)\n"
        "    full[name] = torch.cat(buffers)\n"
        f"return {result}",
    )


def rounds(loop: str, before: str = "", after: str = "") -> str:
    """Return `sum_rounds`; `loop` is the head of its loop, with `batch` in it."""
    return program(
        "sum_rounds(batches)",
        f"{before}sums = []\n"
        f"{loop}\n"
        "    buffers = [torch.empty_like(batch) for _ in range(world_size)]\n"
        "    dist.all_gather(buffers, batch)\n"
        "    sums.append(torch.stack(buffers).sum(dim=0))\n"
        f"{after}"
        "return sums",
    )


COUNTS = (
    "counts = [torch.empty(1, dtype=torch.int64) for _ in range(world_size)]\n"
    "dist.all_gather(counts, torch.tensor([len(batches)]))\n"
)
FILLED = "for batch in batches + [{}] * (int(max(counts)) - len(batches)):"
SEND = "dist.broadcast(mean, src=0)"
BRANCH = "if rank == 0:\n    mean = torch.cat(buffers).mean()\n"
BY_NAME = "sorted(full.items())"

BROKEN = [
    (
        "7.1",
        mean(f"{BRANCH}    {SEND}"),
        "stuck",
        "Rank 0 waited in broadcast; ranks 1–3 returned without calling it.",
    ),
    (
        "7.2",
        named("pairs", BY_NAME),
        "wrong",
        "On rank 0, 'hits' holds the 'loss' of rank 3: the ranks gathered in "
        "different orders, and the operations, shapes and dtypes fit all the same.",
    ),
    (
        "7.3",
        rounds("for batch in batches:"),
        "stuck",
        "Ranks 0–1, 3 waited in all_gather; rank 2 returned without calling it as "
        "often.",
    ),
]
RIGHT = [
    ("7.1", mean(f"{BRANCH}{SEND}")),
    ("7.1", mean("mean = torch.cat(buffers).mean()")),
    ("7.1", mean("mean = torch.stack([b.mean() for b in buffers]).mean()")),
    ("7.2", named("sorted(pairs)", "list(full.items())")),
    ("7.2", named("((n, dict(pairs)[n]) for n in sorted(dict(pairs)))", BY_NAME)),
    (
        "7.2",
        named(
            "[(name, dict(pairs)[name]) for name in names]",
            BY_NAME,
            "names = [name for name, _ in pairs]\n"
            "dist.broadcast_object_list(names, src=0)\n",
        ),
    ),
    ("7.3", rounds(FILLED.format("torch.zeros_like(batches[0])"), COUNTS)),
    (
        "7.3",
        rounds(
            "for i in range(max(counts)):\n"
            "    batch = batches[i] if i < len(batches) else batches[0] * 0",
            "counts = [None] * world_size\n"
            "dist.all_gather_object(counts, len(batches))\n",
        ),
    ),
]
CORRECT = {
    "7.1": "7.1 correct: 6 cases on worlds of 2, 3 and 4 ranks",
    "7.2": "7.2 correct: 3 cases on worlds of 2, 3 and 4 ranks",
    "7.3": "7.3 correct: 3 cases on worlds of 2, 3 and 4 ranks",
}
WRONG = [
    ("7.1", mean(BRANCH), "Only rank 0 has the right result"),
    ("7.1", mean("mean = shard.mean()"), "Ranks 0–3 returned the mean of their own"),
    (
        "7.1",
        mean(f"mean = shard.mean()\n{BRANCH}"),
        "Ranks 1–3 returned the mean of their own shard",
    ),
    (
        "7.1",
        mean("mean = torch.cat(buffers).mean()\ndist.broadcast(mean, src=rank)"),
        "The ranks name different roots",
    ),
    (
        "7.1",
        mean(f"{BRANCH}    {SEND}\nelse:\n    dist.barrier()"),
        "do not agree on one collective",
    ),
    (
        "7.1",
        mean("mean = torch.cat(buffers).sum() / (4 * shard.numel())"),
        "right on 4 ranks and wrong on 3",
    ),
    ("7.1", mean("mean = torch.cat(buffers).mean().item()"), "is a number, where"),
    (
        "7.1",
        mean(f"if rank == 1:\n    mean[9]\n{BRANCH}{SEND}"),
        "Rank 1 failed, and so",
    ),
    ("7.2", named("pairs", "list(full.items())"), "'hits' holds the 'loss' of rank 3"),
    (
        "7.2",
        named("sorted(pairs)", "[(name, full[name]) for name, _ in pairs]"),
        "Rank 3's list has the names in another order",
    ),
    ("7.2", named("sorted(pairs)", "full"), "is a dict, where a list of 3"),
    ("7.2", named("sorted(pairs)[:2]", BY_NAME), "has 2 items; expected are 3"),
    (
        "7.3",
        rounds("for batch in batches[: int(min(counts))]:", COUNTS),
        "when the first rank has no batch left; the rank with most has 3",
    ),
    (
        "7.3",
        rounds(FILLED.format("batches[-1]"), COUNTS),
        "In round 1, rank 2 had no batch left, and the last one was counted again",
    ),
    (
        "7.3",
        rounds(FILLED.format("torch.zeros(2)"), COUNTS),
        "do not agree on one collective",
    ),
    (
        "7.3",
        rounds("for batch in batches[:0]:", after="sums = list(batches)\n"),
        "Ranks 0–3 returned batches, not sums over the ranks",
    ),
]
HANGS = [
    (
        "7.1",
        program("mean_of_all(shard)", "if rank == 1:\n    dist.barrier()"),
        "Rank 1 waited in barrier; ranks 0, 2–3 returned without calling it",
    ),
    (
        "7.2",
        named("sorted(pairs)[: 2 + (rank == 0)]", BY_NAME),
        "Rank 0 waited in all_gather; ranks 1–3 returned without calling it as often",
    ),
    (
        "7.3",
        rounds(
            "for batch in batches:",
            after="while len(sums) < 3:\n    time.sleep(0.01)\n",
            before="batches = batches[:1]\n",
        ),
        "Ranks 0–3 never came to an end",
    ),
]
DEATHS = [
    ("7.1", mean("if rank:\n    os._exit(0)\nmean = torch.cat(buffers).mean()")),
    ("7.2", named("pairs", "os.kill(os.getpid(), 9 * (rank == 1))")),
    ("7.3", rounds("for batch in batches:", "if rank == 1:\n    os.abort()\n")),
]


def ids(table: list) -> list[str]:
    return [f"{row[0]}-{i}" for i, row in enumerate(table)]


@pytest.mark.parametrize(
    ("exercise", "source", "state", "why"), BROKEN, ids=ids(BROKEN)
)
def test_the_broken_program(ranks, exercise, source, state, why):
    """Its verdict, which the lesson shows, is the same on every run."""
    ranks.view.execute(source, block=True)
    one, other = [check(exercise, ranks, timeout=SHORT) for _ in range(2)]
    assert (one.state, one.why) == (state, why)
    assert repr(one) == repr(other)


@pytest.mark.parametrize(("exercise", "source"), RIGHT, ids=ids(RIGHT))
def test_right(ranks, exercise, source):
    ranks.view.execute(source, block=True)
    verdict = check(exercise, ranks)
    assert repr(verdict) == CORRECT[exercise]
    assert verdict


@pytest.mark.parametrize(
    ("exercise", "source", "hint"), [*WRONG, *HANGS], ids=ids([*WRONG, *HANGS])
)
def test_wrong(ranks, exercise, source, hint):
    """The hint is this one, and the world is fit for the next attempt."""
    ranks.view.execute(source, block=True)
    verdict = check(exercise, ranks, timeout=SHORT)
    print(verdict)
    assert not verdict
    assert hint in verdict.why
    assert re.match(rf"{exercise} \w+ on a world of \d ranks, shards", verdict.text)
    assert "set-up" not in verdict.text
    ranks.view.execute(RIGHT[1][1], block=True)
    assert check("7.1", ranks)


@pytest.mark.parametrize(("exercise", "source"), DEATHS, ids=ids(DEATHS))
def test_a_program_that_ends_its_process(exercise, source):
    """The verdict names the rank, and the world can be brought back."""
    with launch(2) as two:
        two.view.execute(source, block=True)
        verdict = check(exercise, two, timeout=SHORT)
        print(verdict)
        assert verdict.state == "died"
        assert verdict.why == "The function ended the process of rank 1."
        two.repair()
        two.view.execute(RIGHT[1][1], block=True)
        assert check("7.1", two)
