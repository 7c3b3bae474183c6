"""`distify verify`: runs a script as it is and as it is rewritten, and compares what both print, compute and save."""
