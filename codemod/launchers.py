"""The variables by which launchers tell a process which one it is, and of how many."""

from __future__ import annotations

# torchrun, SLURM, Open MPI, MPICH and Intel MPI.
NUMBERS = (
    *("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"),
    *("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_NODE_RANK", "PMI_RANK", "MPI_LOCALRANKID"),
)
"""Which one this process is: another number on each."""

STARTED = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""How many processes another launcher than torchrun started."""

SIZES = (
    *("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE", "SLURM_NTASKS", "SLURM_NPROCS"),
    *("OMPI_COMM_WORLD_LOCAL_SIZE", *STARTED),
)
"""How many processes there are, alike on all, and none or another number where the original runs."""

OWN = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
"""What torchrun says to each process of itself and of the others; the runtime goes by it."""

MEETING = ("MASTER_ADDR", "MASTER_PORT")
"""Where all processes meet."""
