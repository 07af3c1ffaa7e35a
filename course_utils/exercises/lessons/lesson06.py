"""The exercises of lesson 6, broadcast what one rank holds."""

from __future__ import annotations

from course_utils.exercises.answers import Attempt, Case
from course_utils.exercises.exercise import Exercise, Inputs
from course_utils.exercises.lessons.inputs import one_shard
from course_utils.text import these_ranks

TENSORS = (
    ((2, 3), "float32"),
    ((4,), "int64"),
    ((), "float64"),
    ((2, 1, 3), "bool"),
    ((0, 2), "float32"),
    ((1, 2, 1, 1, 2, 1, 1, 1), "int64"),
    ((3, 2), "float32", None, (), None, True),
)
ALLOWED = {"broadcast", "barrier"}
ORDINALS = ("first", "second", "third", "fourth")


def root_of(case: Case) -> int:
    """Choose the rank that holds the tensor: not always the same one."""
    return len(case.shape) % case.world_size


def one_tensor(case: Case, path: str) -> Inputs:
    """Give the root a tensor, and the others None."""
    src = root_of(case)
    tensor = one_shard(case, path)[src][0]
    if case.dtype == "bool":
        tensor = one_shard(case._replace(dtype="int64"), path)[src][0] % 2 == 0
    return [(tensor if r == src else None, src) for r in range(case.world_size)]


def tensor_everywhere(case: Case, inputs: Inputs) -> list:
    """Give every rank the root's tensor."""
    return [inputs[root_of(case)][0]] * case.world_size


def only_broadcast(attempt: Attempt) -> str | None:
    """No other collective is allowed."""
    for answer in attempt.answers:
        for call in answer.calls:
            asks = call.name.startswith(("get_", "is_"))
            if call.name not in ALLOWED and not asks:
                return (
                    f"The function calls {call.name}; this exercise allows no "
                    "collective but broadcast."
                )
    return None


def other_root(attempt: Attempt) -> str | None:
    """A broadcast from a rank that holds nothing, or a tensor that is not there."""
    src = root_of(attempt.case)
    for rank, call in attempt.calls("broadcast"):
        named = call.arguments["src"]
        if named is None:
            named = call.arguments["group_src"]
        if named is not None and named != src:
            return (
                f"Rank {rank} broadcasts from rank {named}, but here rank {src} holds "
                "the tensor."
            )
    failed = [r for r in attempt.ranks("raised") if r != src]
    if failed and "NoneType" in attempt.answers[failed[0]].error:
        return (
            f"{these_ranks(failed).capitalize()} took None for the tensor; here only "
            f"rank {src} holds it."
        )
    return None


def unlike(attempt: Attempt) -> str | None:
    """The guard found that buffers and tensor differ; that call did not run."""
    for answer in attempt.answers:
        what = disagreement(answer.error)
        if what:
            number = sum(call.name == "broadcast" for call in answer.calls)
            place = (*ORDINALS, "last")[min(number, len(ORDINALS))]
            return (
                f"In the {place} broadcast, the receivers' buffers do not have the "
                f"{what} of what rank {root_of(attempt.case)} sends."
            )
    return None


def disagreement(error: str) -> str:
    """Return what the guard says the ranks of a broadcast disagree on."""
    before, _, rest = error.partition("the ranks disagree on the ")
    what = rest.partition(" of broadcast")[0]
    return what if rest and what in ("shape", "dtype", "shape and the dtype") else ""


def header_only(attempt: Attempt) -> str | None:
    """The shape is known, and the values have never been sent."""
    counts = {}
    for rank, _ in attempt.calls("broadcast"):
        counts[rank] = counts.get(rank, 0) + 1
    wrong = attempt.wrong()
    found = attempt.difference()
    if found is not None and wrong and set(counts.values()) == {1}:
        shapes = {getattr(v, "shape", None) for v in (found.expected, found.yours)}
        if len(shapes) == 1 and None not in shapes:
            return "Every rank broadcasts once, and the values were not in it."
    return None


EXERCISES = (
    Exercise(
        "6.1",
        "broadcast_any",
        inputs=one_tensor,
        oracle=tensor_everywhere,
        shards=TENSORS,
        rules=(only_broadcast,),
        stops=(only_broadcast, other_root, unlike),
        hints=(other_root, header_only),
        may_share=True,
    ),
)
