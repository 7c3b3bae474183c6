"""What runs inside the processes that `distify verify` compares: it is imported before their scripts are."""
