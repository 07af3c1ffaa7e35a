"""The exercise of lesson 10, measure time."""

from __future__ import annotations

import math

from course_utils.exercises.answers import Attempt, Case
from course_utils.exercises.exercise import Exercise, Inputs
from course_utils.measure import Link, fit

# By the number of ranks: latency, bandwidth, sizes that were measured. What is asked
# for takes 0.6 to 0.8 microseconds more than a whole number: rounding is not cutting.
LINKS = {
    4: (200.2e-6, 1e9, (1_000, 10_000, 100_000, 1_000_000)),
    3: (20.4e-6, 12e9, (4_096, 65_536, 1_048_576)),
    2: (500.7e-6, 0.25e9, (2_000, 3_000_000)),
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


def cut_off(attempt: Attempt) -> str | None:
    """One microsecond too few, or too many."""
    yours, expected = attempt.yours[0], attempt.expected[0]
    if type(yours) is not int or abs(yours - expected) != 1:
        return None
    exact, below = true_time(attempt), yours < expected
    if yours == math.floor(exact) or yours == math.ceil(exact):
        how = "cut off, as int() does" if below else "rounded up"
        return f"The time is {exact:.2f} microseconds, and it was {how}: round it."
    return None


def true_time(attempt: Attempt) -> float:
    """Return the time of the model, in microseconds."""
    latency, bandwidth, _ = LINKS[attempt.case.world_size]
    steps = attempt.case.world_size - 1
    return 1e6 * Link(latency, bandwidth).seconds(steps, steps * ASKED)


def other_unit(attempt: Attempt) -> str | None:
    """Milliseconds, or a thousand times too much."""
    yours, exact = attempt.yours[0], true_time(attempt)
    if type(yours) not in (int, float):
        return None
    for factor, what in ((1e-6, "seconds"), (1e-3, "milliseconds"), (1e3, "ns")):
        if abs(yours - factor * exact) <= 1:
            return f"The result is in {what}; asked for are microseconds."
    return None


def swapped(attempt: Attempt) -> str | None:
    """Sizes taken for times."""
    yours, ((s0, t0), *_, (s1, t1)), asked = attempt.yours[0], *attempt.inputs[0]
    if type(yours) not in (int, float):
        return None
    slope = (s1 - s0) / (t1 - t0)
    wrong = 1e6 * (s0 + slope * (asked - t0))
    if abs(yours - wrong) <= 1e-6 * abs(wrong):
        return "Bytes and seconds have changed places: a point is (bytes, seconds)."
    return None


def coarse(attempt: Attempt) -> str | None:
    """Nearly right."""
    yours, expected = attempt.yours[0], attempt.expected[0]
    if type(yours) is int and 0 < abs(yours - expected) <= 1e-3 * expected:
        off = abs(yours - expected)
        return (
            f"The result is {off} microsecond{'s'[: off != 1]} off, of {expected}: "
            "rounding on the way, as in float32, can do that."
        )
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
    sizes, times = zip(*points, strict=True)
    squares = sum(s * t for s, t in points) / sum(s * s for s in sizes)
    ratios = sum(t / s for s, t in points) / len(points)
    for slope in (squares, ratios, sum(times) / sum(sizes)):
        if abs(yours - 1e6 * slope * asked) < 2:
            return (
                "The line goes through the origin: no bytes would take no time, and "
                "the latency is left out."
            )
    if abs(yours - 1e6 * sum(times) / len(times)) < 2:
        return "The result is the mean of the measured times; the size is another one."
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
        "is the latency, without the time of the bytes": steps * latency,
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
        forms=(not_whole,),
        hints=(unequal, cut_off, other_unit, one_step, swapped, proportional, coarse),
    ),
)
