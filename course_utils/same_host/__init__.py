"""Ranks of one host reach each other through memory that all of them map.

`memory` makes such memory and reaches that of another process; `mailbox` swaps small
messages in it, without a socket.
"""

from course_utils.same_host.mailbox import (
    ROOM,
    Mailbox,
    is_counted,
    mailbox_of,
    swapped,
)
from course_utils.same_host.memory import (
    SWITCH,
    Memory,
    mapped,
    reached,
    say,
    this_host,
    wanted,
)

__all__ = [
    "ROOM",
    "SWITCH",
    "Mailbox",
    "Memory",
    "is_counted",
    "mailbox_of",
    "mapped",
    "reached",
    "say",
    "swapped",
    "this_host",
    "wanted",
]
