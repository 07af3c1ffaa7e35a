"""Join the pieces of a tensor, or of a list, that the ranks hold.

The take-home functions of the course: they need torch alone and run in any
script under torchrun. Each is called by every rank of the group. Shards may be
uneven or empty, of any dtype and layout. One small message tells the sizes, and
carries shards of up to 4096 bytes; after it, no more bytes are sent than the shards
hold. Ranks of one host hand over what is larger, up to 32 MiB, in shared memory: one
copy out, one copy in; on x86-64 the small messages, too. Each rank keeps twice its
largest shard for that, until the group ends; CONCAT_SHARED_MEMORY=0 in the environment
turns it off.

Nobody is left waiting by a local error: whatever cannot be joined, and whatever one
rank alone cannot describe, convert or get the memory for, raises the same
`ConcatError` on every rank before data moves, and the group stays usable. Code that
torch.compile compiles breaks in two at these functions.

All functions are differentiable. The backward pass is the exact adjoint: a
shard receives the sum, in rank order, of what the losses of all ranks send
back, so every rank has to call backward. If all ranks compute the same loss
from the full tensor, each gradient is therefore world-size times that of one
process.
"""

from course_utils.concat.join import (
    all_gather_cat,
    all_gather_list,
    broadcast_tensor,
    gather_cat,
    gather_list,
    scatter_chunks,
)
from course_utils.concat.tell import ConcatError

__all__ = [
    "ConcatError",
    "all_gather_cat",
    "all_gather_list",
    "broadcast_tensor",
    "gather_cat",
    "gather_list",
    "scatter_chunks",
]
