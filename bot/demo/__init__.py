"""The embedded world: a stand-in GitHub and Buildkite, the recorded pull requests, and what starts them all."""
