"""The recorded repository: real git history around a slowdown, its fix, and a main branch that is red."""

from bot.demo.target.build import TargetRepository, build_target
from bot.demo.target.history import World

__all__ = ["TargetRepository", "World", "build_target"]
