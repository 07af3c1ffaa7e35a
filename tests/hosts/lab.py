"""Hosts on one machine: network, name, processes, /tmp and sshd of their own.

Needs root, Linux, and Debian's `openssh-server slurm-wlm munge iproute2`.
"""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

PROGRAMS = ("sshd", "ssh-keygen", "slurmctld", "slurmd", "munged", "ip", "unshare")
PACKAGES = "openssh-server slurm-wlm munge iproute2"
ROOT = Path(__file__).parents[2]
SBIN = "/usr/sbin:/sbin"
HOME = pwd.getpwuid(os.getuid()).pw_dir  # sshd and ssh take no other
LIMIT = 20.0  # seconds for whatever must come up
SSHD = """\
Port 22
HostKey {folder}/id
PidFile none
AuthorizedKeysFile {folder}/id.pub
PermitRootLogin prohibit-password
PasswordAuthentication no
StrictModes no
UsePAM no
"""
SSH = """\
Host *
  IdentityFile {folder}/id
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""
BECOME = """\
set -e
hostname {name}
mount -t tmpfs keep /mnt
{keep}
mount -t tmpfs tmp /tmp; chmod 1777 /tmp
{back}
mount -t tmpfs shm /dev/shm
mount -t tmpfs run /run; mkdir -p /run/sshd /run/munge
mkdir -p /mnt/cgroup; mount --rbind /sys/fs/cgroup /mnt/cgroup
mount -t sysfs sys /sys; mount --rbind /mnt/cgroup /sys/fs/cgroup
for place in .ssh .ipython; do
  mkdir -p {home}/$place; mount -t tmpfs home {home}/$place
done
for file in .bashrc .profile .zshenv; do  # what a person's shell does there may wait
  if [ -e {home}/$file ]; then mount --bind /dev/null {home}/$file; fi
done
install -m 600 {folder}/ssh_config {home}/.ssh/config
mount --bind {folder}/hosts /etc/hosts
touch {folder}/{name}.ready
until ip -4 addr show eth0 2>/dev/null | grep -q inet; do sleep 0.05; done
/usr/sbin/sshd -f {folder}/sshd_config -E {folder}/{name}.sshd
exec {python} -c '
import os, time
while True:
    try:
        os.wait()  # process 1 buries what others leave
    except ChildProcessError:
        time.sleep(0.05)
'
"""
SLURM = """\
ClusterName=course
SlurmctldHost=login
SlurmUser=root
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
StateSaveLocation=/run/slurmctld
SlurmdSpoolDir=/run/slurmd
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=5
SlurmdTimeout=300
NodeName=node[1-2] CPUs=2 State=UNKNOWN
PartitionName=course Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
MUNGE = """\
install -m 400 {folder}/munge.key /run/munge/key
munged --key-file=/run/munge/key --log-file=/run/munge/log \
--pid-file=/run/munge/pid --seed-file=/run/munge/seed --force
"""


def missing() -> str:
    """Say what these hosts lack here; "" if nothing."""
    if sys.platform != "linux" or os.getuid() != 0:
        return "hosts need root on Linux"
    path = f"{os.environ['PATH']}:{SBIN}"
    lacking = [p for p in PROGRAMS if shutil.which(p, path=path) is None]
    if lacking:
        return f"no {', '.join(lacking)}: apt-get install {PACKAGES}"
    if subprocess.run(["unshare", "-n", "-m", "true"], capture_output=True).returncode:
        return "this container may not make network namespaces"
    return ""


class Lab:
    """Hosts that a bridge joins: `login`, where notebooks run, and nodes.

    folder: that all hosts see.
    """

    NAMES = ("login", "node1", "node2")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen] = []
        self.pids: dict[str, int] = {}  # process 1 of each host; of the switch

    def address(self, name: str) -> str:
        """Return the address of a host."""
        return f"10.77.0.{self.NAMES.index(name) + 1}"

    def up(self) -> None:
        """Bring the hosts up, and wait until each can be reached."""
        known = ["127.0.0.1 localhost"]
        known += [f"{self.address(name)} {name}" for name in self.NAMES]
        (self.folder / "hosts").write_text("\n".join(known) + "\n")
        (self.folder / "sshd_config").write_text(SSHD.format(folder=self.folder))
        (self.folder / "ssh_config").write_text(SSH.format(folder=self.folder))
        key = str(self.folder / "id")
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
        self.pids["switch"] = self.spawn("unshare", "-n", "sleep", "infinity").pid
        self.wait(lambda: own_network(self.pids["switch"]), "the switch")
        self.on_switch("ip link add br0 type bridge; ip link set br0 up")
        for name in self.NAMES:
            self.begin(name)
        for name in self.NAMES:
            self.plug_in(name)
        for name in self.NAMES:
            self.wait(lambda name=name: self.listens(name), f"sshd on {name}")

    def begin(self, name: str) -> None:
        """Start process 1 of a host."""
        kept = {str(p) for p in (self.folder, ROOT, Path(sys.prefix))}
        kept = sorted(p for p in kept if p.startswith("/tmp/"))
        script = BECOME.format(
            name=name,
            folder=self.folder,
            home=HOME,
            python=shlex.quote(sys.executable),
            keep="\n".join(
                f"mkdir /mnt/{i}; mount --bind {p} /mnt/{i}" for i, p in enumerate(kept)
            ),
            back="\n".join(
                f"mkdir -p {p}; mount --bind /mnt/{i} {p}" for i, p in enumerate(kept)
            ),
        )
        own = "-n -u -i -m -p --fork --kill-child --mount-proc --propagation private"
        self.spawn("unshare", *own.split(), "sh", "-c", script, log=name)

    def plug_in(self, name: str) -> None:
        """Give a host its network."""
        ready = self.folder / f"{name}.ready"
        self.wait(ready.exists, f"host {name}")
        [child] = psutil.Process(
            self.started[self.NAMES.index(name) + 1].pid
        ).children()
        self.pids[name] = child.pid
        self.on_switch(
            f"ip link add {name} type veth peer name eth0 netns {child.pid}; "
            f"ip link set {name} master br0; ip link set {name} up"
        )
        run(
            *self.inside(name),
            "sh",
            "-c",
            f"ip link set lo up; ip addr add {self.address(name)}/24 dev eth0; "
            "ip link set eth0 up",
        )

    def inside(self, name: str) -> list[str]:
        """Return the words that put a command onto a host."""
        # -p without a fork would leave the command outside
        return ["nsenter", "-t", str(self.pids[name]), "-n", "-u", "-i", "-m", "-p"]

    def run(self, name: str, command: str, limit: float = 60) -> str:
        """Run a shell command on a host; return what it printed."""
        return run(*self.inside(name), "sh", "-c", command, limit=limit)

    @contextmanager
    def pulled(self, name: str) -> Iterator[None]:
        """Pull the cable of a host in a ``with`` block."""
        self.on_switch(f"ip link set {name} down")
        try:
            yield
        finally:
            self.on_switch(f"ip link set {name} up")

    def processes(self, name: str) -> list[str]:
        """Return the command lines on a host of what belongs to a world."""
        said = self.run(name, "ps axww -o args")
        signs = ("course_utils.engines", "ipyparallel", "mpiexec", "hydra_pmi")
        return [line for line in said.splitlines() if any(s in line for s in signs)]

    def listening(self, name: str) -> list[str]:
        """Return the addresses at which Pythons of a host listen, one a port."""
        said = self.run(name, "ss -Hltnp")
        return [
            line.split()[3].rpartition(":")[0]
            for line in said.splitlines()
            if "python" in line
        ]

    def files(self, folder: Path | str, name: str = "login") -> list[str]:
        """Return what is in a folder, as a host sees it."""
        return self.run(name, f"ls -A {folder}").split()

    def profile(self, name: str, text: str) -> Path:
        """Make an ipyparallel profile on `login`; return its folder."""
        folder = Path(HOME, ".ipython", f"profile_{name}")
        file = f"{folder}/ipcluster_config.py"
        self.run("login", f"mkdir -p {folder}; cat > {file} <<'E'\n{text}\nE")
        return folder

    def slurm_up(self) -> dict[str, str]:
        """Start Slurm: its controller on `login`, a daemon on each node.

        Returns the variables by which its commands find it.
        """
        (self.folder / "slurm.conf").write_text(SLURM.format(folder=self.folder))
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        conf = f"export SLURM_CONF={self.folder}/slurm.conf; "
        for name in self.NAMES:
            self.run(name, MUNGE.format(folder=self.folder))
        self.run("login", f"{conf} mkdir -p /run/slurmctld; slurmctld")
        for name in self.NAMES[1:]:
            self.run(name, f"{conf} mkdir -p /run/slurmd; slurmd -N {name}")
        idle = f"{conf} sinfo -h -t idle -o %D"
        self.wait(lambda: self.run("login", idle).strip() == "2", "Slurm")
        return {"SLURM_CONF": f"{self.folder}/slurm.conf"}

    def down(self) -> None:
        """End every process of the hosts; their namespaces go with them."""
        for pid in self.pids.values():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in self.started:
            try:
                process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(LIMIT)

    def listens(self, name: str) -> bool:
        """Tell whether the sshd of a host listens."""
        return ":22 " in self.run(name, "ss -Hltn")

    def on_switch(self, command: str) -> None:
        """Run a shell command in the network of the switch."""
        run("nsenter", "-t", str(self.pids["switch"]), "-n", "sh", "-c", command)

    def spawn(self, *command: str, log: str = "switch") -> subprocess.Popen:
        """Start a process that `down` ends."""
        with open(self.folder / f"{log}.log", "ab") as out:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        self.started.append(process)
        return process

    def wait(self, ready, what: str) -> None:
        """Wait until something is up; say what its logs say if it does not come."""
        deadline = time.monotonic() + LIMIT
        while not ready():
            if time.monotonic() > deadline:
                logs = [p.read_text()[-500:] for p in self.folder.glob("*.log")]
                raise TimeoutError(f"{what} did not come up:\n" + "\n".join(logs))
            time.sleep(0.02)


def own_network(pid: int) -> bool:
    """Tell whether a process has a network of its own by now."""
    return os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")


def run(*command: str, limit: float = 60) -> str:
    """Run a command that must not fail; return what it printed."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:{SBIN}"},
    )
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)}:\n{done.stdout}{done.stderr}")
    return done.stdout
