"""What there is to find, a file for each family; `codes.CODES` holds all of it."""
