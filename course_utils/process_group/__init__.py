"""Initialise, destroy and set aside the process groups of this rank."""

from course_utils.process_group.default import destroy, device, init, open_store
from course_utils.process_group.set_aside import put_groups, take_groups
from course_utils.process_group.waits import give_up, still_there, wait

__all__ = [
    "destroy",
    "device",
    "give_up",
    "init",
    "open_store",
    "put_groups",
    "still_there",
    "take_groups",
    "wait",
]
