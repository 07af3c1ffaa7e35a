"""Which cluster a launch is for: told from launcher, profile and hosts."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from course_utils.engines.hosts import EXAMPLE, read_hosts, share_out

TAKE_HOSTS = ("ssh", "mpi")

if TYPE_CHECKING:
    from collections.abc import Sequence

    from course_utils.engines.handed_over import HandedOver


def check_hosts(
    world_size: int,
    engines: str | type | None,
    profile: str | None,
    hosts: int | Sequence[str] | None,
) -> None:
    """Raise ValueError if a launcher lacks hosts, or cannot use those it is given."""
    if isinstance(hosts, bool | float):
        raise ValueError(
            "hosts: expected a number of hosts, as in launch(4, hosts=2), or names, "
            f"as in {EXAMPLE}, got {hosts!r}"
        )
    if is_inside(hosts):
        share_out(hosts, world_size)
        if engines is not None or profile is not None:
            raise ValueError(
                f"hosts: {hosts} hosts are made inside this machine, for forked ranks; "
                f"engines and profile take names of hosts, as in {EXAMPLE}"
            )
        return
    if not hosts and (hosts is not None or (engines == "ssh" and profile is None)):
        raise ValueError(
            "hosts: engines='ssh' needs names of hosts, each with its number of ranks, "
            f"as in {EXAMPLE}, or a profile that lists them"
        )
    if hosts:
        read_hosts(hosts, world_size)
    if hosts and isinstance(engines, str) and engines not in TAKE_HOSTS:
        raise ValueError(
            f"hosts: engines={engines!r} chooses the hosts itself; "
            f"{' and '.join(TAKE_HOSTS)} take them"
        )


def is_inside(hosts: int | Sequence[str] | None) -> bool:
    """Tell whether hosts are to be made inside this machine: a number of them."""
    return isinstance(hosts, int)


def choose_cluster(
    world_size: int,
    engines: str | type | None,
    profile: str | None,
    hosts: Sequence[str] | None,
    preload: Sequence[str],
) -> HandedOver:
    """Return the cluster for a launcher of ipyparallel's, not yet started.

    preload: modules that every engine needs, beside torch and ipyparallel's own.
    """
    # here, so that ranks that are forked start sooner
    from course_utils.engines.handed_over import HandedOver
    from course_utils.engines.on_slurm import OnSlurm
    from course_utils.engines.over_mpi import OverMPI
    from course_utils.engines.over_ssh import OverSSH

    if hosts and engines is None and profile is None:
        engines = "ssh"
    launcher = launcher_of(engines, profile)
    if is_a(launcher, "SSHEngineSetLauncher"):
        return OverSSH(world_size, engines, profile, hosts, preload)
    if is_a(launcher, "SlurmEngineSetLauncher"):
        return OnSlurm(world_size, engines, profile, hosts)
    if is_a(launcher, "MPIEngineSetLauncher"):
        return OverMPI(world_size, engines, profile, hosts)
    return HandedOver(world_size, engines, profile, hosts)


def launcher_of(engines: str | type | None, profile: str | None) -> type:
    """Return the class of a launcher, which a profile may name."""
    from ipyparallel import Cluster

    from course_utils.engines.handed_over import copy_profile

    chosen = {"engines": engines} if engines else {}
    with tempfile.TemporaryDirectory() as folder:  # Cluster writes into its profile
        if profile is not None:
            copy_profile(profile, Path(folder))
        cluster = Cluster(
            **chosen, profile_dir=folder, cluster_file="", shutdown_atexit=False
        )
    return cluster.engine_launcher_class


def is_a(launcher: type, name: str) -> bool:
    """Tell whether a launcher is, or is made from, ipyparallel's of that name."""
    from ipyparallel.cluster import launcher as known

    return issubclass(launcher, getattr(known, name))
