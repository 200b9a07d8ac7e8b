# SPDX-License-Identifier: Apache-2.0
"""Starting programs under Open MPI's mpirun on a machine of any size, as root or not."""
import os
import shutil
import subprocess

MPIRUN = shutil.which("mpirun")
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
               "OMPI_MCA_hwloc_base_binding_policy": "none"}


def start(*programs):
    """One mpirun of several (ranks, command)."""
    line = [MPIRUN]
    for i, (ranks, command) in enumerate(programs):
        line += ([":"] if i else []) + ["-n", str(ranks), *command]
    return subprocess.Popen(line, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process, seconds):
    """(standard output, standard error) of an mpirun; one that does not end in that time is ended, with what it started."""
    try:
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.terminate()  # it passes this on; SIGKILL it could not
        return process.communicate(timeout=60)
