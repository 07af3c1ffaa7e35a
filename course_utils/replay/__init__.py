"""Record what ranks call and send, and play it back as an animation.

`calls` and `recording` run on a rank; `messages`, `story` and `scenes` put together
who sent what to whom, and when; `stage` and `film` draw it.
"""

from course_utils.face import opened

__all__, __getattr__ = opened(
    __name__,
    {
        "animation": ("Replay", "replay"),
        "call": ("Call",),
        "calls": ("LIBRARY", "WRAPPERS", "arguments", "recorded"),
        "film": (),
    },
)
