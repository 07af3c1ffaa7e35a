"""How ranks, errors and quantities are written. Pure: the standard library alone."""

from course_utils.face import opened

__all__, __getattr__ = opened(
    __name__,
    {
        "tags": (
            "ROWS",
            "aligned",
            "folded",
            "indent",
            "merge",
            "paragraph",
            "rank_list",
            "rank_table",
            "tag",
            "these_ranks",
        ),
        "errors": (
            "NoSuchVariable",
            "RankError",
            "block",
            "error_text",
            "failures",
            "readable",
        ),
        "places": ("file_named", "is_cell", "is_own", "own_places"),
        "targets": ("parse_ranks",),
        "quantities": (
            "bytes_of",
            "rate_of",
            "seconds",
            "seconds_of",
            "show_bytes",
            "show_seconds",
        ),
    },
)
