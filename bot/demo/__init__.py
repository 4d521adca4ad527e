"""The embedded world: a stand-in GitHub, the recorded pull requests, and what runs them."""
