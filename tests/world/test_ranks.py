"""The object that the notebook holds: ranks["x"], run, where, show, stop."""

import os
import socket
from base64 import b64decode

import pytest
import worlds
from ipyparallel import interactive
from IPython.core.formatters import DisplayFormatter

from course_utils import launch
from course_utils.text.errors import RankError
from course_utils.world.ranks import Ranks


@interactive
def assign(name: str, value: object) -> None:
    get_ipython().user_ns[name] = value  # noqa: F821


@interactive
def assign_by_rank(name: str) -> None:
    import torch
    from torch import distributed as dist

    start = 100 * dist.get_rank()
    get_ipython().user_ns[name] = torch.arange(start, start + 2)  # noqa: F821


@interactive
def gathered(name: str, shard: str) -> None:
    import torch
    from torch import distributed as dist

    names = get_ipython().user_ns  # noqa: F821
    parts = [torch.empty_like(names[shard]) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, names[shard])
    names[name] = torch.cat(parts)


@interactive
def fail_on(rank: int) -> str:
    import os

    if int(os.environ["RANK"]) == rank:
        raise ValueError("not me")
    return "fine"


def shown(picture: object) -> tuple[str, bytes]:
    """Return the text and the PNG that Jupyter gets for a picture."""
    data, _ = DisplayFormatter().format(picture)
    png = data["image/png"]
    return data["text/plain"], png if isinstance(png, bytes) else b64decode(png)


def test_assigned_value_is_on_every_rank(ranks):
    ranks["x"] = {"a": [1, 2]}
    assert ranks["x"] == [{"a": [1, 2]}] * 4


def test_values_come_in_rank_order(ranks):
    ranks.run(assign_by_rank, "shard")
    assert [t.tolist() for t in ranks["shard"]] == [
        [0, 1],
        [100, 101],
        [200, 201],
        [300, 301],
    ]


def test_values_of_every_kind_come_back(ranks):
    for value in (None, False, "text", b"\0\1", (1, 2.5), [], {"k": {3}}):
        ranks["value"] = value
        assert ranks["value"] == [value] * 4


def test_missing_variable_names_the_ranks_without_it(ranks):
    ranks.run(assign, "here", 1, targets=[0, 2])
    with pytest.raises(NameError, match="ranks 1, 3 of 4 have no variable 'here'"):
        ranks["here"]
    with pytest.raises(NameError, match="ranks 0–3 of 4 have no variable 'nowhere'"):
        ranks["nowhere"]


@pytest.mark.parametrize("name", [0, "a b", "a.b", "x[0]", "", "lambda", None, ("x",)])
def test_what_is_no_name_is_refused(ranks, name):
    with pytest.raises(TypeError, match='as in ranks\\["x"\\]'):
        ranks[name]
    with pytest.raises(TypeError, match='as in ranks\\["x"\\]'):
        ranks[name] = 1


def test_run_returns_results_in_rank_order(ranks):
    pids = ranks.run(os.getpid)
    assert len(set(pids)) == 4
    assert ranks.run(os.getpid) == pids
    assert ranks.run(os.getpid, targets=2) == [pids[2]]
    assert ranks.run(os.getpid, targets=[3, 0]) == [pids[3], pids[0]]
    assert ranks.run(os.getpid, targets=range(1, 3)) == pids[1:3]


def test_run_passes_arguments(ranks):
    assert ranks.run(divmod, 7, 3) == [(2, 1)] * 4
    assert ranks.run_each(divmod, {i: (7, 1 + i) for i in range(4)}) == [
        (7, 0),
        (3, 1),
        (2, 1),
        (1, 3),
    ]


def test_run_names_the_rank_that_failed(ranks):
    with pytest.raises(RankError) as error:
        ranks.run(fail_on, 2)
    text = str(error.value)
    assert "[rank 2] ValueError" in text and "not me" in text
    assert "rank 1" not in text and "rank 0" not in text
    assert ranks.run(fail_on, -1) == ["fine"] * 4  # the ranks go on


@pytest.mark.parametrize("targets", [4, -1, [0, 4], [], 100])
def test_run_on_ranks_that_do_not_exist(ranks, targets):
    with pytest.raises(IndexError, match="expected ranks from 0 to 3"):
        ranks.run(os.getpid, targets=targets)


def test_where_tells_pid_host_local_rank_and_device(ranks):
    lines = str(ranks.where()).splitlines()
    assert lines[0].split() == ["rank", "pid", "host", "local", "rank", "device"]
    host = socket.gethostname()
    assert [line.split() for line in lines[1:]] == [
        [str(rank), str(pid), host, str(rank), "cpu"]
        for rank, pid in enumerate(ranks.run(os.getpid))
    ]


def test_show_draws_live_tensors_with_a_twin_in_text(ranks):
    ranks.run(assign_by_rank, "shard")
    ranks.run(gathered, "full", "shard")
    twin, png = shown(ranks.show("shard", "full"))
    assert png.startswith(b"\x89PNG")
    assert "shard" in twin and "full" in twin
    for number in (0, 1, 100, 101, 200, 201, 300, 301):
        assert str(number) in twin
    assert shown(ranks.show("shard", "full"))[0] == twin


def test_show_needs_names(ranks):
    with pytest.raises(TypeError, match="names of variables"):
        ranks.show()


def test_context_manager_stops_the_world_also_after_an_error():
    before = worlds.family()
    with pytest.raises(ZeroDivisionError), launch(1) as ranks:
        started = [p for p in worlds.family() if p not in before]
        assert ranks.run(os.getpid)[0] in [p.pid for p in started]
        raise ZeroDivisionError
    assert not worlds.left_after(started)
    stopped(ranks)
    ranks.stop()  # once more does no harm
    stopped(ranks)


def stopped(ranks: Ranks) -> None:
    """Assert that a world has ended, and says so."""
    assert repr(ranks) == "1 rank · stopped"
    for use in (
        lambda: ranks["x"],
        lambda: ranks.__setitem__("x", 1),
        lambda: ranks.run(os.getpid),
        lambda: ranks.where(),
        lambda: ranks.show("x"),
    ):
        with pytest.raises(RuntimeError, match="stopped: call launch"):
            use()
