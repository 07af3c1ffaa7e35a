"""Why a call failed: names that are missing, and what the guard has found."""

from __future__ import annotations

import re

from course_utils.exercises import source
from course_utils.exercises.answers import Answer, Attempt, Form
from course_utils.exercises.wording import plural, start
from course_utils.replay import Call
from course_utils.text import merge, these_ranks

UNKNOWN_NAME = re.compile(r"name '(\w+)' is not defined")
DISAGREE = re.compile(r"the ranks disagree on the (.+?) of ([\w ]+), so it did not run")
REFUSED = re.compile(
    r"(\w+)(?: in P2POp)? did not run: (ranks? [\d–, ]*\d|this rank) (.+)"
)
OWN = {  # the tensor that is each rank's own; "tensor" elsewhere
    "all_gather_single": "input_tensor",
    "all_gather_into_tensor": "input_tensor",
}
WHOLE = {name: "output_tensor" for name in OWN}
LISTS = {"all_gather": "tensor_list", "gather": "gather_list"}
LISTS["scatter"] = "scatter_list"
ROOTS = ("src", "dst", "group_src", "group_dst")


def missing_name(attempt: Attempt) -> str | None:
    """A name that the ranks do not know: an import that has not run there."""
    for rank in attempt.ranks("raised"):
        found = UNKNOWN_NAME.search(attempt.answers[rank].error)
        if found:
            without = [
                r
                for r in attempt.ranks("raised")
                if found[0] in attempt.answers[r].error
            ]
            return (
                f"{start(without)} {plural(without, 'knows', 'know')} nothing called "
                f"{found[1]}: run the imports again, or the cell that defines it."
            )
    return None


def none_kept(attempt: Attempt) -> str | None:
    """The None that a collective returns is taken for its result."""
    if not any("NoneType" in answer.error for answer in attempt.answers):
        return None
    node = source.function(attempt.source, attempt.function)
    name, call = source.kept_none(node) if node else ("", "")
    if not call:
        return None
    return (
        f"{call} returns None, and so `{name}` is None: it fills {source.FILLS[call]}."
    )


def none_elsewhere(attempt: Attempt) -> str | None:
    """Some ranks work on a None where others have something."""
    failed, went = attempt.ranks("raised"), attempt.ranks("returned")
    if not went or len(failed) + len(went) < len(attempt.answers):
        return None
    if not failed or any("None" not in attempt.answers[r].error for r in failed):
        return None
    return (
        f"{start(failed)} failed on None where {these_ranks(went)} went through: what "
        f"they work on there, only {these_ranks(went)} "
        f"{plural(went, 'holds', 'hold')}."
    )


def told_by_guard(attempt: Attempt) -> str | None:
    """Say what the guard has found, with what the ranks passed."""
    for rank in attempt.ranks("raised"):
        error = " ".join(attempt.answers[rank].error.split())
        found = DISAGREE.search(error)
        if found:
            return disagreement(attempt, found[1], found[2])
        found = REFUSED.search(error)
        if found:
            who = found[2]
            if who == "this rank":
                who = these_ranks(attempt.ranks("raised"))
            return refusal(attempt, found[1], who, found[3])
    return None


def last_calls(attempt: Attempt) -> dict[int, Call]:
    """Return the last guarded call of every rank: the one that did not run."""
    every = enumerate(attempt.answers)
    return {rank: answer.tried[-1] for rank, answer in every if answer.tried}


def disagreement(attempt: Attempt, what: str, name: str) -> str:
    """Say on what the ranks disagree, and who says what."""
    calls = last_calls(attempt)
    if what == "operation":
        said = merge({rank: call.name for rank, call in calls.items()})
        return f"The ranks are in different calls at the same time: {spread(said)}."
    if what == "root":
        named = {rank: root_of(call) for rank, call in calls.items()}
        return (
            f"The ranks name different roots for {name}: {spread(merge(named))}. The "
            "root is one rank, and every rank names the same one."
        )
    if "layout" in what:
        return (
            f"{name} copies memory as it lies, and the tensors of the ranks do not lie "
            "in one order: one is a transposed view. Pass a contiguous one."
        )
    forms = {rank: own_form(call) for rank, call in calls.items()}
    if any(form is None for form in forms.values()):
        return f"The ranks disagree on the {what} of {name}."
    said = merge({rank: str(form) for rank, form in forms.items()})
    return f"The ranks call {name} with tensors of different {what}: {spread(said)}."


def spread(said: list[tuple[list[int], object]]) -> str:
    """Write who says what, as in "(2,) int64 on rank 0, (3,) int64 on rank 1"."""
    return ", ".join(f"{text} on {these_ranks(ranks)}" for ranks, text in said)


def root_of(call: Call) -> str:
    """Write the root that a call names."""
    named = [call.arguments.get(n) for n in ROOTS]
    return str(next((n for n in named if n is not None), 0))


def own_form(call: Call) -> Form | None:
    """Return the form of the rank's own tensor in a call."""
    held = call.arguments.get(OWN.get(call.name, "tensor"))
    return held if isinstance(held, Form) else None


def refusal(attempt: Attempt, name: str, who: str, what: str) -> str:
    """Say what one rank does wrong in a call."""
    calls = last_calls(attempt)
    call = next((c for r, c in calls.items() if c.name == name and named(r, who)), None)
    who = who.capitalize()
    if "passed no list" in what:
        return f"{who} is the root of {name} and passed no list."
    if "list without being the root" in what:
        root = what.rpartition("only rank ")[2].split()[0]
        return (
            f"{who} passed a list to {name}; only the root, here rank {root}, passes "
            "one."
        )
    if "in the wrong order" in what:
        return f"{who} passed list and tensor the wrong way round: {after(what)}."
    if "one buffer several times" in what:
        return (
            "The list for the result holds the same buffer several times, so that all "
            "its items would show what is written last."
        )
    if "passed None as" in what:
        given = what.split(" as ")[1].split(",")[0]
        return (
            f"{who} passed None as {given} of {name}: every rank passes a tensor, with "
            "what it sends or to receive into."
        )
    return (call and misfit(attempt, call, who)) or f"{name}: {who.lower()} {what}."


def after(what: str) -> str:
    """Return what stands behind the last semicolon."""
    return what.rpartition("; ")[2].rstrip(".")


def named(rank: int, who: str) -> bool:
    """Tell whether the words for some ranks name a rank."""
    for part in who.removeprefix("ranks").removeprefix("rank").split(","):
        first, _, last = part.partition("–")
        if int(first) <= rank <= int(last or first):
            return True
    return False


def misfit(attempt: Attempt, call: Call, who: str) -> str | None:
    """Say how buffers and tensor of one call do not fit one another."""
    size, own = attempt.case.world_size, own_form(call)
    listed = call.arguments.get(LISTS.get(call.name, ""))
    if own is None:
        return None
    if isinstance(listed, tuple) and not isinstance(listed, Form):
        if len(listed) != size:
            return (
                f"The list that {who.lower()} passed to {call.name} must have one "
                f"tensor for each of the {size} ranks, and has {len(listed)}."
            )
        other = next((f for f in listed if isinstance(f, Form) and f != own), None)
        if other is not None:
            part = "to receive into" if call.name == "scatter" else "to send"
            return (
                f"In {call.name}, {who.lower()} passed a tensor {part} of {own} and a "
                f"list with one of {other}: both need the same shape and dtype."
            )
    whole = call.arguments.get(WHOLE.get(call.name, ""))
    return one_tensor(whole, own, size, call) if isinstance(whole, Form) else None


def one_tensor(whole: Form, own: Form, size: int, call: Call) -> str | None:
    """Say how the one tensor for all pieces does not fit a piece."""
    if whole.dtype != own.dtype:
        return (
            f"The tensor that {call.name} fills is {whole.dtype} and the shard "
            f"{own.dtype}: both need one dtype."
        )
    if not own.shape:
        return (
            f"The piece that {call.name} sends has no dimension, and the pieces are to "
            "stand along dim 0: it must have shape (1,), as of torch.tensor([n])."
        )
    if whole.shape != (size * own.shape[0], *own.shape[1:]):
        return (
            f"The tensor that {call.name} fills has shape {whole.shape}; for {size} "
            f"shards {own.shape} it must be {(size * own.shape[0], *own.shape[1:])}, "
            "the shards along dim 0."
        )
    return None


def one_buffer_misfit(attempt: Attempt) -> str | None:
    """torch has refused the one tensor for all pieces, on all ranks alike."""
    for rank in attempt.ranks("raised"):
        answer: Answer = attempt.answers[rank]
        call = answer.tried[-1] if answer.tried else None
        if call and call.name in WHOLE:
            found = misfit(attempt, call, these_ranks([rank]))
            if found:
                return found
    return None
