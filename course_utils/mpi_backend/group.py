"""The process group: torch's calls, and what each of them begins."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import torch
from mpi4py import MPI
from torch import distributed as dist

from course_utils.mpi_backend import moving, reducing
from course_utils.mpi_backend.meeting import communicator
from course_utils.mpi_backend.work import SOON, Begun, Work, give_up

Tensors = Sequence[torch.Tensor]


class MPIGroup(dist.ProcessGroup):
    """A process group whose members are in one MPI world.

    torch calls the methods by these names; most take lists of one tensor each.

    options: what torch tells a backend about the group.
    """

    def __init__(self, options, _: object = None) -> None:
        super().__init__(options.group_rank, options.group_size)
        self._limit, self._name, self._count = options.timeout, options.group_id, 0
        self._comm = communicator(options)

    def _work(self, name: str, begun: Begun, limit: timedelta = SOON) -> Work:
        return Work(name, begun, limit if limit > SOON else self._limit, self)

    def _collective(self, name: str, begun: Begun, opts: object = None) -> Work:
        self._count += 1
        return self._work(name, begun, getattr(opts, "timeout", SOON))

    def broadcast(self, tensors: Tensors, opts) -> Work:
        begun = moving.broadcast(self._comm, tensors[0], opts.rootRank)
        return self._collective("broadcast", begun, opts)

    def allgather(self, outputs: list[Tensors], inputs: Tensors, opts=None) -> Work:
        begun = moving.all_gather(self._comm, outputs[0], inputs[0])
        return self._collective("all_gather", begun, opts)

    def all_gather_single(
        self, output: torch.Tensor, tensor: torch.Tensor, opts=None
    ) -> Work:
        begun = moving.all_gather_single(self._comm, output, tensor)
        return self._collective("all_gather_single", begun, opts)

    _allgather_base = all_gather_single

    def gather(self, outputs: list[Tensors], inputs: Tensors, opts) -> Work:
        into = outputs[0] if outputs else []
        begun = moving.gather(self._comm, into, inputs[0], opts.rootRank)
        return self._collective("gather", begun, opts)

    def scatter(self, outputs: Tensors, inputs: list[Tensors], opts) -> Work:
        given = inputs[0] if inputs else []
        begun = moving.scatter(self._comm, outputs[0], given, opts.rootRank)
        return self._collective("scatter", begun, opts)

    def allreduce(self, tensors: Tensors, opts) -> Work:
        begun = reducing.all_reduce(self._comm, tensors[0], opts.reduceOp)
        return self._collective("all_reduce", begun, opts)

    def reduce(self, tensors: Tensors, opts) -> Work:
        begun = reducing.reduce(self._comm, tensors[0], opts.reduceOp, opts.rootRank)
        return self._collective("reduce", begun, opts)

    def reduce_scatter(self, outputs: Tensors, inputs: list[Tensors], opts) -> Work:
        begun = reducing.reduce_scatter(
            self._comm, outputs[0], inputs[0], opts.reduceOp
        )
        return self._collective("reduce_scatter", begun, opts)

    def reduce_scatter_single(
        self, output: torch.Tensor, tensor: torch.Tensor, opts
    ) -> Work:
        begun = reducing.reduce_scatter(self._comm, output, tensor, opts.reduceOp)
        return self._collective("reduce_scatter_single", begun, opts)

    _reduce_scatter_base = reduce_scatter_single

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts=None) -> Work:
        begun = moving.all_to_all(self._comm, outputs, inputs)
        return self._collective("all_to_all", begun, opts)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        received: Sequence[int],
        sent: Sequence[int],
        opts=None,
    ) -> Work:
        begun = moving.all_to_all_single(self._comm, output, tensor, received, sent)
        return self._collective("all_to_all_single", begun, opts)

    alltoall_base = all_to_all_single

    def barrier(self, opts=None) -> Work:
        return self._collective("barrier", Begun(self._comm.Ibarrier().Test), opts)

    def send(self, tensors: Tensors, to: int, tag: int = 0) -> Work:
        return self._work("send", moving.send(self._comm, tensors[0], to, tag))

    def recv(self, tensors: Tensors, source: int, tag: int = 0) -> Work:
        begun = moving.receive(self._comm, tensors[0], source, tag)
        return self._work("recv", begun)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Work:
        return self.recv(tensors, MPI.ANY_SOURCE, tag)

    def abort(self) -> None:
        """Give up what is going on; peers may be gone, so nothing is freed."""
        give_up(self)

    shutdown = abort

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the time after which a wait fails."""
        self._limit = timeout

    def getBackendName(self) -> str:
        return "mpi4py"

    def _get_backend(self, device: torch.device) -> MPIGroup:
        return self

    def _get_sequence_number_for_group(self) -> int:
        return self._count

    @property
    def group_name(self) -> str:
        """The name that torch has given the group."""
        return self._name
