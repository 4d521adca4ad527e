"""What maintainers watch: the queue of open pull requests, and the story of each."""
