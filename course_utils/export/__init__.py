"""Write the cells of a lesson as a script that runs under torchrun."""

from course_utils.face import opened

__all__, __getattr__ = opened(__name__, {"notebook": ("export_command",)})
