"""The recorded builds, published one after the other by the replay."""

from bot.demo import recorded
from bot.demo.buildkite.api import create_app
from bot.demo.buildkite.organization import Organization
from bot.demo.buildkite.state import Build, Job
from bot.demo.github import StandIn
from bot.demo.recorded.ci import ORGANIZATION

PREFIX = "/buildkite"


class StandInBuildkite:
    """Serves the builds that have been published, below `/buildkite` of the stand-in GitHub."""

    def __init__(self, recording: recorded.Recording, github: StandIn, token: str = "") -> None:
        self.organization = ORGANIZATION
        self.url = f"{github.url}{PREFIX}"
        self.hub = Organization(ORGANIZATION, self.url, token, f"{github.url}/{recording.repository}.git")
        self._github = github
        # Builds of main ran whether or not a pull request asked for them.
        for build in recording.builds:
            if build.pull is None:
                self.publish(build)

    def publish(self, build: recorded.Build) -> None:
        """Let a build be seen."""
        self.hub.publish(build_of(build))

    def web_url(self, build: recorded.Build) -> str:
        """Return where people see a build."""
        return self.hub.web_url(build_of(build))

    def install(self) -> None:
        """Add the endpoints to the stand-in's server."""
        self._github.app.mount(PREFIX, create_app(self.hub))


def build_of(build: recorded.Build) -> Build:
    """Return a recorded build as the stand-in keeps it."""
    return Build(
        pipeline=build.pipeline,
        number=build.number,
        commit=build.commit,
        branch=build.branch,
        pull=build.pull,
        created_at=build.created_at,
        jobs=[job_of(job) for job in build.jobs],
    )


def job_of(job: recorded.Job) -> Job:
    """Return a recorded job as the stand-in keeps it."""
    return Job(
        id=job.id,
        name=job.name,
        state=job.state,
        started_at=job.started_at,
        finished_at=job.finished_at,
        log=job.log,
        step_key=job.step_key,
        exit_status=job.exit_status,
        agent=job.agent,
        soft_failed=job.soft_failed,
    )
