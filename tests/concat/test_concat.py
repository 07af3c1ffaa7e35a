"""`course_utils.concat` against one-process torch.cat, on generated cases."""

import re
from pathlib import Path

import pytest
import worlds
from concat_cases import cases
from hypothesis import HealthCheck, given, settings

from course_utils import launch
from course_utils.text.errors import RankError

HERE = Path(__file__).parent
ORACLE = (HERE.parent / "concat_oracle.py").read_text()
HOSTS = (HERE / "hosts_calls.py").read_text()

generated = settings(
    max_examples=90,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)


@pytest.fixture(scope="module", params=["00000", "01011"], ids="on hosts {}".format)
def five(request):
    """Return five ranks on which the oracle stands ready.

    They take themselves for ranks on hosts of these numbers.
    """
    with launch(5, guard=False) as ranks:
        for calls in (HOSTS, ORACLE):
            ranks.view.execute(calls, block=True)
        ranks.run(eval, f"be_on(int({request.param!r}[dist.get_rank()]))")
        yield ranks


@generated
@given(case=cases())
def test_equals_one_process(five, case):
    assert five.run(eval, f"forward({case!r})") == [[]] * 5


@generated
@given(case=cases(dtypes=["float64", "float32"]))
def test_gradients_equal_those_of_one_process(five, case):
    assert five.run(eval, f"backward({case!r})") == [[]] * 5


def joins(five, source: str) -> list[str]:
    """Evaluate an expression on every rank; return every rank's error text."""
    with pytest.raises(RankError) as failed:
        five.run(eval, source)
    text = str(failed.value)
    tags = re.findall(r"^\[ranks? ([\d–, ]+)\]", text, re.M)
    assert sorted(worlds.ranks_in(", ".join(tags))) == list(range(5)), text
    texts = {block.partition("\n")[2].strip() for block in text.split("\n[rank")}
    assert len(texts) == 1, "the error differs between ranks"
    return texts.pop()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "concat.all_gather_cat(torch.ones(2, 3 + (dist.get_rank() == 3)))",
            "disagree on the shape apart from dim 0; rank 3 differs",
        ),
        (
            "concat.all_gather_cat(torch.ones((2,) * (1 + (dist.get_rank() == 1))))",
            "disagree on the number of dimensions; rank 1 differs",
        ),
        (
            "concat.all_gather_cat(torch.ones(2).to("
            "torch.int32 if dist.get_rank() in (1, 2) else torch.float32))",
            "disagree on the dtype; ranks 1–2 differ",
        ),
        (
            "concat.gather_cat(None if dist.get_rank() == 4 else torch.ones(2))",
            "rank 4 passed None instead of a tensor",
        ),
        ("concat.all_gather_cat(torch.ones(2), dim=1)", "dim 1 on ranks 0–4 is out of"),
        (
            "concat.all_gather_cat(torch.ones(2, 2), dim=dist.get_rank() % 2)",
            "disagree on the dim; ranks 1, 3 differ",
        ),
        (
            "concat.gather_cat(torch.ones(2), dst=int(dist.get_rank() == 0))",
            "disagree on the root; rank 0 differs",
        ),
        ("concat.gather_cat(torch.ones(2), dst=5)", "rank 5 is not in the group"),
        ("concat.scatter_chunks(None, src=2)", "rank 2 passed None"),
        ("concat.broadcast_tensor('text')", "rank 0 passed a str: pass a torch.Tensor"),
        (
            "concat.all_gather_cat(torch.ones(2, device='meta' if dist.get_rank() else"
            " 'cpu'))",
            "the tensor of ranks 1–4 is on meta; gloo sends tensors on cpu",
        ),
        (
            "concat.all_gather_cat(torch.eye(2).to_sparse() if dist.get_rank() == 2 "
            "else torch.eye(2))",
            "rank 2 passed a sparse tensor",
        ),
        (
            "concat.all_gather_list([torch.ones(2), None][: 1 + dist.get_rank() % 2])",
            "ranks 1, 3 passed a list whose item 1 is None: leave it out",
        ),
        (
            "concat.all_gather_cat(torch.ones(2)) if dist.get_rank() else "
            "concat.gather_cat(torch.ones(2))",
            "disagree on the operation; rank 0 differs",
        ),
        (
            "torch.set_grad_enabled(dist.get_rank() > 0).__class__ and "
            "concat.all_gather_cat(torch.ones(2).requires_grad_())",
            "rank 0 called it under no_grad",
        ),
    ],
)
def test_same_error_on_every_rank_and_the_world_goes_on(five, source, said):
    try:
        assert said in joins(five, source)
    finally:
        five.view.execute("torch.set_grad_enabled(True)", block=True)
    after = five.run(eval, "concat.all_gather_cat(torch.ones(1)).numel()")
    assert after == [5] * 5


def test_a_rank_outside_the_group_gets_a_clear_error(five):
    with pytest.raises(RankError, match="rank 0 is not in it"):
        five.run(eval, "concat.all_gather_cat(torch.ones(1), 0, made[(3,)])", targets=0)


@pytest.mark.parametrize("elements", [1023, 1024, 1025, [1, 1025], [1025, 0]])
def test_around_what_travels_with_the_sizes(five, elements):
    """4096 bytes are 1024 elements; one rank with more sends for all."""
    count = elements
    if isinstance(elements, list):
        count = f"{elements}[dist.get_rank() % 2]"
    source = f"torch.arange({count}).float() + 10000 * dist.get_rank()"
    five.run(exec, f"tell.EAGER = 4096; shard = {source}")
    five.run(exec, "full = concat.all_gather_cat(shard)")
    five.run(exec, "parts = concat.all_gather_list([shard, shard.int()])")
    five.run(exec, "root = concat.broadcast_tensor(shard, 3)")
    five.run(exec, "chunk = concat.scatter_chunks(shard, 3)")
    shards = five.run(eval, "shard.tolist()")
    joined = sum(shards, [])
    assert five.run(eval, "full.tolist()") == [joined] * 5
    assert (
        five.run(eval, "[t.tolist() for t in parts]")
        == [[part for shard in shards for part in (shard, list(map(int, shard)))]] * 5
    )
    assert five.run(eval, "root.tolist()") == [shards[3]] * 5
    assert sum(five.run(eval, "chunk.tolist()"), []) == shards[3]


def test_without_a_process_group():
    with launch(1, init=False) as ranks:
        ranks.view.execute("import torch\nfrom course_utils import concat", block=True)
        with pytest.raises(RankError, match=r"no process group: call dist\.init"):
            ranks.run(eval, "concat.all_gather_cat(torch.ones(1))")
