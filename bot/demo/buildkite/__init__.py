"""A stand-in Buildkite: builds, jobs, logs and retries over HTTP, with signed webhooks."""

from bot.demo.buildkite.organization import Organization
from bot.demo.buildkite.recorded import StandInBuildkite

__all__ = ["Organization", "StandInBuildkite"]
