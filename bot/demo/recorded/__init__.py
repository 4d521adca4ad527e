"""The recorded pull requests: what people wrote, what CI ran and printed, in the order it happened."""

from bot.demo.recorded.ci import Build, Job, builds
from bot.demo.recorded.thread import Issue, Pull, Recording, Step, load

__all__ = ["Build", "Issue", "Job", "Pull", "Recording", "Step", "builds", "load"]
