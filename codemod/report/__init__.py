"""What the user reads after a conversion."""
