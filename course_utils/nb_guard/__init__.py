"""Guards for tests of notebooks: a pytest plugin, which `pytest --nb-guard` turns on.

`cells` fails what nbval lets pass, `kernels` notices a kernel that has ended, and
`left_behind` finds processes that outlive the tests. The options are declared in
`course_utils_plugins`, outside of this package.
"""

from course_utils.face import opened

__all__, __getattr__ = opened(__name__, {"switch": ("turn_on",)})
