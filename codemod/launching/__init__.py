"""How a converted script is started: on this machine, on several, or by a job file for a scheduler."""
