"""What `check` says of right and wrong answers in lessons 6 and 8, on real ranks."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from judging import Answers, Tried

from course_utils import check
from course_utils.exercises import lessons, verdict
from course_utils.exercises.answers import Answer, Attempt
from course_utils.exercises.values import plain
from course_utils.replay.call import Call

ANSWERS = Answers(
    names={
        "6.1": "broadcast_any(tensor, src)",
        "8.1": "gather_uneven(shard)",
        "8.2": "gather_lists(tensors)",
    },
    correct={
        "6.1": "6.1 correct: 15 cases on worlds of 2, 3 and 4 ranks",
        "8.1": "8.1 correct: 12 cases on worlds of 2, 3 and 4 ranks",
        "8.2": "8.2 correct: 9 cases on worlds of 2, 3 and 4 ranks",
    },
    imports=(
        "from course_utils import concat\n"
        "DTYPES = [torch.float32, torch.float64, torch.int64, torch.bool]\n"
    ),
)


HEADER = (
    "header = torch.full((10,), -1)\n"
    "if rank == src:\n"
    "    header[0], header[1] = DTYPES.index(tensor.dtype), tensor.dim()\n"
    "    for i, size in enumerate(tensor.shape):\n"
    "        header[2 + i] = size\n"
    "dist.broadcast(header, src)\n"
    "code, dims, *sizes = header.tolist()\n"
)
ROOM = "if rank != src:\n    tensor = torch.empty(sizes[:dims], dtype=DTYPES[code])\n"
SEND = "dist.broadcast(tensor, src)\nreturn tensor"
ANY = HEADER + ROOM + SEND

SIZES = (
    "sizes = torch.empty(world_size, dtype=torch.int64)\n"
    "dist.all_gather_single(sizes, torch.tensor([len(shard)]))\n"
    "sizes = sizes.tolist()\n"
)
PAD = (
    "padded = shard.new_zeros(max(sizes), *shard.shape[1:])\n"
    "padded[:len(shard)] = shard\n"
    "parts = [torch.empty_like(padded) for _ in sizes]\n"
)
PADDED = SIZES + PAD + "dist.all_gather(parts, padded)\n"
TRIM = "return [part[:n] for part, n in zip(parts, sizes)]"
UNEVEN = PADDED + TRIM
RESULT = (
    "full = shard.new_empty((sum(sizes), *shard.shape[1:]))\n"
    "parts = list(full.split(sizes))\n"
)
EVEN = "parts = [torch.empty_like(shard) for _ in range(world_size)]\n"

INNER = (
    "def uneven(shard):\n"
    + "\n".join(f"    {line}" for line in UNEVEN.splitlines())
    + "\n"
)
NOTHING = "nothing = torch.empty(0, dtype=torch.int64)\n"
LENGTHS = "torch.tensor([len(t) for t in tensors], dtype=torch.int64)"
BOTH = (
    INNER
    + NOTHING
    + f"lengths = uneven({LENGTHS})\n"
    + "values = uneven(torch.cat([nothing, *tensors]))\n"
)
LISTS = BOTH + "return list(torch.cat(values).split(torch.cat(lengths).tolist()))"
NESTED = BOTH + "nested = [v.split(n.tolist()) for v, n in zip(values, lengths)]\n"

RIGHT = [
    ("6.1", ANY),
    (
        "6.1",  # number of dimensions, sizes and dtype one after another
        "if rank != src:\n    tensor = torch.empty(())\n"
        "kind = torch.tensor([tensor.dim(), DTYPES.index(tensor.dtype)])\n"
        "dist.broadcast(kind, src)\n"
        "shape = torch.zeros(kind[0], dtype=torch.int64)\n"
        "if rank == src:\n"
        "    shape = torch.tensor(list(tensor.shape), dtype=torch.int64)\n"
        "dist.broadcast(shape, src)\n"
        "out = tensor.clone()\n"
        "if rank != src:\n"
        "    out = torch.empty(shape.tolist(), dtype=DTYPES[kind[1]])\n"
        "dist.broadcast(out, src=src)\nreturn out",
    ),
    ("6.1", ANY.replace("(header, src)", "(header, group_src=src)")),
    ("8.1", UNEVEN),
    (
        "8.1",
        SIZES + RESULT + "copies = torch.cat([shard] * world_size)\n"
        "given = [len(shard)] * world_size\n"
        "dist.all_to_all_single(full, copies, sizes, given)\nreturn parts",
    ),
    (
        "8.1",
        SIZES + RESULT + "parts[rank].copy_(shard)\n"
        "for r in range(world_size):\n    dist.broadcast(parts[r], r)\nreturn parts",
    ),
    ("8.1", "return concat.all_gather_list(shard)"),
    ("8.2", LISTS),
    ("8.2", NESTED + "return [t for own in nested for t in own]"),
    ("8.2", "return concat.all_gather_list(tensors)"),
]

WRONG = [
    # 6.1
    (
        "6.1",
        HEADER.replace("(header, src)", "(header, 0)") + ROOM + SEND,
        "broadcasts from rank 0, but here rank 2 holds the tensor",
    ),
    (
        "6.1",
        ANY.replace("== src", "== 0").replace("!= src", "!= 0"),
        "Rank 0 took None for the tensor; here only rank 2 holds it",
    ),
    (
        "6.1",
        "return concat.broadcast_tensor(tensor, src)",
        "calls broadcast_tensor; this exercise allows no collective but broadcast",
    ),
    (
        "6.1",
        "box = [tensor]\ndist.broadcast_object_list(box, src)\nreturn box[0]",
        "calls broadcast_object_list; this exercise",
    ),
    (
        "6.1",
        "if rank != src:\n    tensor = torch.empty(2, 3)\n" + SEND,
        "In the first broadcast, the receivers' buffers do not have the "
        "shape and the dtype of what rank 1 sends",
    ),
    (
        "6.1",
        HEADER + "if rank != src:\n    tensor = torch.empty(sizes[:dims])\n" + SEND,
        "In the second broadcast, the receivers' buffers do not have the "
        "dtype of what rank 1 sends",
    ),
    (
        "6.1",  # a header that is as long as the shape
        "shape = torch.zeros(3, dtype=torch.int64)\n"
        "if rank == src:\n    shape = torch.tensor(tensor.shape)\n"
        "dist.broadcast(shape, src)\nreturn tensor",
        "In the first broadcast, the receivers' buffers do not have the "
        "shape of what rank 2 sends",
    ),
    (
        "6.1",
        HEADER + "if rank != src:\n"
        "    tensor = torch.zeros(sizes[:dims], dtype=DTYPES[code])\nreturn tensor",
        "Every rank broadcasts once: the shape, it seems, and not the values",
    ),
    (
        "6.1",
        ANY.replace("return tensor", "return tensor.flatten()"),
        "The shape has changed: (6,), where (2, 3) is expected",
    ),
    (
        "6.1",
        ANY.replace("return tensor", "return tensor.double()"),
        "The dtype has changed: float64, where float32",
    ),
    (
        "6.1",
        ANY.replace("return tensor", "return tensor if rank == src else None"),
        "Ranks 0–1, 3 returned None",
    ),
    (
        "6.1",
        HEADER + ROOM + "return dist.broadcast(tensor, src)",
        "Ranks 0–3 returned None",
    ),
    ("6.1", HEADER + ROOM + "tensor += 1\n" + SEND, "changed its input"),
    # 8.1
    (
        "8.1",
        EVEN + "dist.all_gather(parts, shard)\nreturn parts",
        "all_gather takes pieces of one shape only",
    ),
    (
        "8.1",
        SIZES + RESULT + "dist.all_gather(parts, shard)\nreturn parts",
        "all_gather takes pieces of one shape only",
    ),
    (
        "8.1",
        PADDED + "return parts",
        "On rank 0, item 0 has 3 rows, where 2 are expected: the padding is still",
    ),
    (
        "8.1",
        PADDED + "return [part[:len(shard)] for part in parts]",
        "On rank 0 every item has 2 rows, as many as its own shard",
    ),
    (
        "8.1",
        PADDED + "return [p[:n] for p, n in zip(parts, sizes)][::-1]",
        "in another order; expected are those of the ranks one after another",
    ),
    (
        "8.1",
        PADDED + "return [p[:n] for p, n in zip(parts, sizes) if n]",
        "Rank 0's list lacks the empty shards",
    ),
    (
        "8.1",
        PADDED + "return torch.cat([p[:n] for p, n in zip(parts, sizes)])",
        "is a tensor of shape (6,), where a list of 4 is expected",
    ),
    (
        "8.1",
        SIZES
        + PAD.replace("shard.new_zeros(max(sizes), *shard.shape[1:])", "torch.zeros(3)")
        + "dist.all_gather(parts, padded)\n"
        + TRIM,
        "The dtype has changed: float32, where int64",
    ),
    (
        "8.1",
        SIZES
        + PAD.replace("max(sizes), *shard.shape[1:]", "4 * max(sizes)").replace(
            "padded[:len(shard)] = shard", "padded[:shard.numel()] = shard.ravel()"
        )
        + "dist.all_gather(parts, padded)\n"
        + TRIM,
        "The shape has changed: (1,), where (1, 2) is expected",
    ),
    (
        "8.1",
        "parts = [None] * world_size\ndist.all_gather_object(parts, shard)\n"
        "return parts",
        "calls all_gather_object; this exercise is about doing without objects",
    ),
    (
        "8.1",
        SIZES
        + "padded = torch.cat([shard, shard[-1:].repeat(max(sizes) - len(shard))])\n"
        + "parts = [torch.empty_like(padded) for _ in sizes]\n"
        + "dist.all_gather(parts, padded)\n"
        + TRIM,
        "all_gather takes pieces of one shape only",
    ),
    (
        "8.1",
        PADDED + "return [p[:n] for p, n in zip(parts, sizes)] if rank == 0 else None",
        "Only rank 0 returns the result",
    ),
    (
        "8.1",
        UNEVEN.replace("range(world_size)", "range(4)").replace(
            "torch.empty(world_size", "torch.empty(4"
        ),
        "right on 4 ranks and wrong on 3",
    ),
    # 8.2
    ("8.2", NESTED + "return nested", "the list holds lists; expected is one flat"),
    ("8.2", "return tensors", "returned no tensor but its own"),
    (
        "8.2",
        BOTH + "return values",
        "Rank 0's list has all numbers, but 4 tensors instead of 6",
    ),
    (
        "8.2",
        NESTED + "return [t for own in nested[::-1] for t in own]",
        "Rank 0's list has every tensor, in another order; expected are those of the "
        "ranks one after another (2, then 0, then 3, then 1)",
    ),
    (
        "8.2",
        NESTED
        + "most = max(map(len, nested))\n"
        + "return [own[i] for i in range(most) for own in nested if i < len(own)]",
        "in another order",
    ),
    (
        "8.2",
        NESTED + "return [t for own in nested for t in own if len(t)]",
        "Rank 0's list lacks the empty tensors",
    ),
    (
        "8.2",
        BOTH.replace("[nothing, *tensors]", "[torch.empty(0), *tensors]")
        + "return list(torch.cat(values).split(torch.cat(lengths).tolist()))",
        "The dtype has changed: float32, where int64",
    ),
    (
        "8.2",
        "parts = [None] * world_size\ndist.all_gather_object(parts, tensors)\n"
        "return sum(parts, [])",
        "calls all_gather_object; this exercise is about doing without objects",
    ),
    (
        "8.2",
        NESTED + "flat = [t for own in nested for t in own]\n"
        "return flat if rank == 0 else []",
        "The list of rank 1 has 0 items; expected are 6",
    ),
]

HANGS = [
    (
        "6.1",
        "if rank == src:\n    dist.broadcast(tensor, src)\nreturn tensor",
        "Rank 2 waited in broadcast; ranks 0–1, 3 returned without calling it.",
    ),
    (
        "6.1",
        HEADER + "if rank != src:\n    tensor = torch.empty(sizes[:dims])\n    "
        "dist.broadcast(tensor, src)\nreturn tensor",
        "waited in broadcast; rank 2 returned without calling it as often",
    ),
    (
        "8.1",
        "if not len(shard):\n    return [shard] * world_size\n" + UNEVEN,
        "Rank 1, with nothing to send, returned while the others waited",
    ),
    (
        "8.1",
        "largest = shard.max()\n" + UNEVEN,
        "Rank 1 failed, where there is nothing to send",
    ),
    (
        "8.1",
        "if rank == 0:\n"
        + "\n".join(f"    {line}" for line in UNEVEN.splitlines())
        + "\nreturn None",
        "ranks 1–3 returned without calling it",
    ),
    (
        "8.2",
        BOTH.replace("[nothing, *tensors]", "tensors") + "return values",
        "Rank 1 failed, where there is nothing to send",
    ),
]


def test_the_verdict_names_the_sizes(ranks):
    ANSWERS.define(ranks, "8.1", PADDED + "return parts")
    first = "8.1 wrong on a world of 4 ranks, shards of 2, 0, 3, 1 rows, int64\n"
    assert check("8.1", ranks).text.startswith(first)
    one_row = TRIM.replace("sizes)]", "sizes)] if shard.dim() == 1 else parts")
    ANSWERS.define(ranks, "8.1", PADDED + one_row)
    verdict = check("8.1", ranks)
    assert "shards of 1, 3, 2, 0 rows of shape (2,), float32\n" in verdict.text
    ANSWERS.define(ranks, "8.2", "return tensors")
    first = "8.2 wrong on a world of 4 ranks, lists of 2, 0, 3, 1 tensors\n"
    assert check("8.2", ranks).text.startswith(first)


VALUES = st.recursive(
    st.sampled_from(
        [None, 3, "x", torch.arange(2), torch.zeros(0, 2), torch.tensor(1.5)]
    ).map(plain),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=6,
)
STATES = ("returned", "raised", "waited", "looped", "stuck", "died")
ERRORS = (
    "",
    "the ranks disagree on the shape and the dtype of broadcast, so",
    "the ranks disagree on the shape of all_gather, so",
    "AttributeError: 'NoneType' object",
)
CALL = Call("broadcast", {"src": 0, "group_src": None})


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(sorted(ANSWERS.names)),
    st.integers(0, 5),
    st.lists(
        st.tuples(st.sampled_from(STATES), VALUES, st.sampled_from(ERRORS)),
        min_size=4,
        max_size=4,
    ),
)
def test_no_answer_breaks_the_verdict(exercise, which, seen):
    """Whatever the ranks answer, there is a verdict, the same each time."""
    entry = lessons.find(exercise)
    cases = entry.cases(4)
    case = cases[which % len(cases)]
    inputs = entry.inputs(case, "")
    expected = entry.oracle(case, inputs)
    answers = [
        Answer(
            state,
            inputs=plain(inputs[rank]),
            expected=plain(expected[rank]),
            yours=value if state == "returned" else None,
            calls=(CALL,) * (len(error) % 3),
            error=error,
        )
        for rank, (state, value, error) in enumerate(seen[: case.world_size])
    ]
    made = Attempt(case, tuple(answers), tuple(cases[: which % 3]))
    said = repr(verdict.wrong(entry, made, []))
    assert said.startswith(f"{exercise} ")
    assert said == repr(verdict.wrong(entry, made, []))
    for hint in (*entry.rules, *entry.hints):
        assert (hint(made) or ".").endswith(".")


class TestAnswers(Tried):
    answers, again = ANSWERS, ("8.1", UNEVEN)
    right, wrong, hanging = RIGHT, WRONG, HANGS
