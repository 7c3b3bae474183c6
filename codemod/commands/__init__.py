"""The verbs of the command line but `rewrite`: each module adds one to the app, and imports its work when called."""
