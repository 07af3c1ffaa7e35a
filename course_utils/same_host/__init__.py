"""Ranks of one host reach each other through memory that all of them map.

`memory` makes such memory and reaches that of another process; `mailbox` swaps small
messages in it, without a socket; `opening` finds out which ranks can.
"""

from course_utils.same_host.mailbox import ROOM, Mailbox
from course_utils.same_host.memory import (
    SWITCH,
    Memory,
    mapped,
    reached,
    say,
    this_host,
    wanted,
)
from course_utils.same_host.opening import (
    Opened,
    is_counted,
    mailbox_of,
    mailboxes_of,
    swapped,
)

__all__ = [
    "ROOM",
    "SWITCH",
    "Mailbox",
    "Memory",
    "Opened",
    "is_counted",
    "mailbox_of",
    "mailboxes_of",
    "mapped",
    "reached",
    "say",
    "swapped",
    "this_host",
    "wanted",
]
