"""The texts that distify writes: Jinja2 templates of inserted statements (`code/`), and pages (`report/`)."""
