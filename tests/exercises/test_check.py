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


RANK = 'int(os.environ["RANK"])'
SIZE = 'int(os.environ["WORLD_SIZE"])'
BRING_UP = (
    "def bring_up(path):\n"
    '    dist.init_process_group("gloo", {})\n'
    "    return dist.get_rank(), dist.get_world_size()"
)
FILE = f'init_method=f"file://{{path}}", rank={RANK}, world_size={SIZE}'
ALL = "dist.all_gather(full, shard)\n"
GATHER = gather(ALL + "return full")
HANGING = gather("while rank == 1:\n    time.sleep(0.01)\n    rank = 1\n")
BROUGHT_UP = BRING_UP.format(FILE)
LOOK = "seen = dist.is_initialized(), hasattr(dist.all_gather, 'unguarded')"
STUBBORN = """
def gather_all(shard):
    while dist.get_rank() == 1:
        try:
            time.sleep(0.1)
        except BaseException:
            pass
"""


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
    for exercise, source in (("2.1", BROUGHT_UP), ("3.1", GATHER), ("3.1", HANGING)):
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
        assert repr(check("3.1", two)) == "3.1 correct: 4 cases on a world of 2 ranks"
        define(two, LOOK)
        assert two["seen"] == [(False, False)] * 2
        define(two, BROUGHT_UP)
        text = "2.1 correct: 2 cases on worlds of 1 and 2 ranks"
        assert repr(check("2.1", two)) == text
        define(two, LOOK)
        assert two["seen"] == [(False, False)] * 2
    with launch(1) as one:
        define(one, BROUGHT_UP)
        assert repr(check("2.1", one)) == "2.1 correct: 1 case on a world of 1 rank"
        with pytest.raises(ValueError, match="needs 2 ranks or more"):
            check("3.1", one)
