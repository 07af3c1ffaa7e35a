"""The exercise of lesson 10, measure time."""

from __future__ import annotations

from course_utils.exercises.answers import Attempt, Case
from course_utils.exercises.exercise import Exercise, Inputs
from course_utils.measure import Link, fit

LINKS = {  # by the number of ranks: latency, bandwidth, sizes that were measured
    4: (200e-6, 1e9, (1_000, 10_000, 100_000, 1_000_000)),
    3: (20e-6, 12e9, (4_096, 65_536, 1_048_576)),
    2: (0.5e-3, 0.25e9, (2_000, 3_000_000)),
}
ASKED = 30_000_000  # bytes of the shard whose time is to be predicted


def measurements(case: Case, path: str) -> Inputs:
    """Give every rank the same times of all_gather, and a size to predict."""
    latency, bandwidth, sizes = LINKS[case.world_size]
    link, steps = Link(latency, bandwidth), case.world_size - 1
    points = [(size, link.seconds(steps, steps * size)) for size in sizes]
    return [(points, ASKED)] * case.world_size


def predicted(case: Case, inputs: Inputs) -> list:
    """Give every rank the time in whole microseconds."""
    points, asked = inputs[0]
    steps = case.world_size - 1
    link = fit([(steps, steps * size, time) for size, time in points]).link
    return [microseconds(link.seconds(steps, steps * asked))] * case.world_size


def microseconds(seconds: float) -> int:
    """Return whole microseconds."""
    return round(1e6 * seconds)


def not_whole(attempt: Attempt) -> str | None:
    """Seconds, or a fraction."""
    yours, expected = attempt.yours[0], attempt.expected[0]
    if type(yours) is not float:
        return None
    if abs(1e6 * yours - expected) < 1:
        return "The result is in seconds; asked for are whole microseconds."
    if abs(yours - expected) < 1:
        return f"The result is {yours!r}; asked for is a whole number, an int."
    return None


def proportional(attempt: Attempt) -> str | None:
    """A fit without latency, or without volume."""
    yours, (points, asked) = attempt.yours[0], attempt.inputs[0]
    if type(yours) not in (int, float):
        return None
    for size, time in points:
        if abs(yours - 1e6 * time * asked / size) < 2:
            return (
                f"The result is the time of {size} bytes, scaled up: then the latency "
                "grows with the size, too, which it does not."
            )
    if any(abs(yours - 1e6 * time) < 2 for _, time in points):
        return "The result is one of the measured times; the size is another one."
    return None


def one_step(attempt: Attempt) -> str | None:
    """Steps that were counted wrongly."""
    yours, steps = attempt.yours[0], attempt.case.world_size - 1
    latency, bandwidth, _ = LINKS[attempt.case.world_size]
    if type(yours) not in (int, float):
        return None
    fitted = Link(steps * latency, bandwidth / steps)  # as if it were one step
    candidates = {
        "fits one step and predicts W−1 of them": steps * fitted.seconds(1, ASKED),
        "fits W−1 steps and predicts one": Link(latency, bandwidth).seconds(1, ASKED),
        "leaves the latency out": fitted.seconds(0, ASKED),
    }
    for what, time in candidates.items():
        if abs(yours - 1e6 * time) < 2 and attempt.expected[0] != yours:
            return f"The result {what}."
    return None


def unequal(attempt: Attempt) -> str | None:
    """Another result on each rank."""
    if len({repr(value) for value in attempt.yours}) > 1:
        return "The ranks have different results, from the same measurements."
    return None


EXERCISES = (
    Exercise(
        "10.1",
        "predict",
        inputs=measurements,
        oracle=predicted,
        hints=(not_whole, unequal, one_step, proportional),
    ),
)
