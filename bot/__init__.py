"""The service: everything that talks to GitHub."""
