"""Red CI: whose is it? Snapshots are read, failures named, and a verdict given for each."""
