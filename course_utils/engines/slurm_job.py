"""ipyparallel's launcher of a job of Slurm's, with a script that we can rely on."""

from __future__ import annotations

import os

from ipyparallel.cluster.launcher import SlurmEngineSetLauncher
from traitlets import Unicode

from course_utils.engines import slurm

SCRIPT = """#!/bin/sh
#SBATCH --export=ALL
#SBATCH --job-name=ranks
#SBATCH --ntasks={n}
#SBATCH --no-kill
test -d {profile_dir} || exit 97
exec >>{output_file} 2>&1
exec srun {step} {program_and_args}
"""


class SlurmJob(SlurmEngineSetLauncher):
    """The job whose tasks are the engines; a profile may set another script."""

    default_template = Unicode(SCRIPT)
    output_template = Unicode("#SBATCH --output=/dev/null")

    def __init__(self, **kwargs) -> None:
        super().__init__(**kwargs)
        self.batch_file = os.path.join(self.profile_dir, self.batch_file_name)

    def write_batch_script(self, n: int = 1) -> None:
        """Write the script; what srun is told stands in `slurm.STEP`."""
        self.context["step"] = " ".join(slurm.STEP)
        super().write_batch_script(n)

    def _run_command(self, command: list[str], **kwargs) -> str:
        """Run a command of Slurm's, and keep what it has to say."""
        return slurm.ask(*command, **kwargs)
