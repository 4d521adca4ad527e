"""A stand-in GitHub: stateful, over HTTP, with a real git repository behind it and signed webhooks."""

from bot.demo.github.server import StandIn

__all__ = ["StandIn"]
