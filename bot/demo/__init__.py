"""The embedded world: stand-ins for GitHub and Buildkite, the recorded pull requests, what starts them."""
