"""Where CI runs: each provider turns its builds into the snapshot's jobs. What cannot be read is None."""
