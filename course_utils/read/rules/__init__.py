"""The rules of the reader: each is a function of a source that yields findings."""

from collections.abc import Callable, Iterator

from course_utils.read.finding import Finding
from course_utils.read.rules.branches import branch, leaving_early, loop, order
from course_utils.read.rules.buffers import aliased, uneven
from course_utils.read.rules.calls import device, group_root, untrusted, unwaited
from course_utils.read.rules.training import gradient, padded
from course_utils.read.source import Source

Rule = Callable[[Source], Iterator[Finding]]
RULES: tuple[Rule, ...] = (
    branch,
    order,
    loop,
    leaving_early,
    aliased,
    uneven,
    device,
    unwaited,
    group_root,
    untrusted,
    gradient,
    padded,
)
