"""Examine this machine: everything that a world needs, one line each, with a cure.

`host`, `packages` and `trial` have the checks; `examination` runs them in order.
`on_ranks` is what the ranks of the trial do.
"""

from course_utils.face import opened

__all__, __getattr__ = opened(__name__, {"command": ("doctor_command",)})
