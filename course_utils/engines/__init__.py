"""The processes behind the ranks: ipyparallel's engines, started, held and stopped.

`forked` starts them by `fork` and `fork_parent`, cheaply (`lean`, `without_nanny`),
`over_ssh` on other hosts by `host` and `on_host`, `on_slurm`, `over_mpi` and
`handed_over` by ipyparallel's launchers, as `task`, `in_namespaces` on hosts inside
this machine; `clusters` chooses among these, `control` addresses the engines by rank.
"""

from course_utils.face import opened

__all__, __getattr__ = opened(
    __name__,
    {
        "clusters": ("check_hosts", "choose_cluster", "is_inside"),
        "control": ("Control",),
        "forked": ("Forked",),
        "handed_over": ("HandedOver",),
        "hosts": ("read_link", "share_out"),
        "in_namespaces": ("InNamespaces",),
        "leash": ("follow",),
        "machine": (),
        "namespaces": ("lacking",),
        "ports": ("LOOPBACK",),
        "starting": ("StartError",),
    },
)
