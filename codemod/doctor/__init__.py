"""What a run needs of this machine, what there is, and what is missing."""
