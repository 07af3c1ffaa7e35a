"""Compare every collective across the ranks before it runs.

gloo compares nothing: unequal shapes or dtypes give wrong numbers, or abort an
innocent process. `install` wraps the collectives of `torch.distributed`, so that
the ranks of the group first exchange one small message that says what each is
about to do. If they disagree, every rank raises the same error and no data
moves; the group stays usable.

In a script under torchrun, on every rank:

    from course_utils import guard

    guard.install()

torch has such a check (TORCH_DISTRIBUTED_DEBUG=DETAIL), but it counts messages
between two ranks, too: after one send from rank 0 to rank 1 it fails every
later collective of all ranks. It also takes several times as long, and does not
compare roots.
"""

from course_utils.guard.arguments import OPERATIONS
from course_utils.guard.comparison import CollectiveError, compare, confirm
from course_utils.guard.known import recall
from course_utils.guard.peers import check_peer
from course_utils.guard.wrap import WRAPPER, comparable, install, uninstall

__all__ = [
    "OPERATIONS",
    "WRAPPER",
    "CollectiveError",
    "check_peer",
    "comparable",
    "compare",
    "confirm",
    "install",
    "recall",
    "uninstall",
]
