"""The one libcst pass that makes the edits: where things stand, what goes there, and how blocks and calls change."""
