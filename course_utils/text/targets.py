"""Which ranks does ``--targets`` name?"""

from __future__ import annotations

from course_utils.text.errors import RankError


def parse_ranks(text: str, world_size: int) -> list[int]:
    """Return the ranks that ``--targets`` names: "2", "0,2", "1:3", "::2", "all".

    Raises RankError for a rank that does not exist.
    """
    everyone, chosen = range(world_size), []
    try:
        for part in text.strip("[]() ").split(","):
            if part == "all":
                chosen.extend(everyone)
            elif ":" in part:
                bounds = [int(b) if b.strip() else None for b in part.split(":")]
                chosen.extend(everyone[slice(*bounds)])
            elif part.strip():
                if int(part) not in everyone:  # -1 is no rank
                    raise IndexError
                chosen.append(int(part))
    except (ValueError, TypeError):
        raise RankError(
            f"--targets {text}: expected ranks, as in 0 or 0,2 or 1:3 or all"
        ) from None
    except IndexError:
        raise RankError(
            f"--targets {text}: rank {part.strip()} does not exist; "
            f"the ranks are 0 to {world_size - 1}"
        ) from None
    if not chosen:
        raise RankError(f"--targets {text}: no rank is named")
    return sorted(set(chosen))
