"""What every handler reads first: the pull request as it stands, the repository's wishes, our memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bot import store
from bot.actions import Mode, Target
from bot.clients import Clients
from bot.comments import Frame
from bot.config import CONFIG_PATH, ConfigError, Problem, RepoConfig, parse_cached
from bot.dispatch import JobSpec
from bot.facts import PullFacts
from bot.github import RepoClient
from bot.perf_defaults import with_default_perf
from bot.pulls import read_pull
from perf_runner.cases import matches


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a pull request. `config_problems` not empty: the configuration cannot be used.

    `memory` holds the latest value of each kind of decision that was asked for.
    """

    facts: PullFacts
    config: RepoConfig
    frame: Frame
    config_problems: tuple[Problem, ...] = ()
    paused: bool = False
    memory: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def target(self) -> Target:
        """What the actions are about: silent where the pull request opted out, or somebody paused us."""
        silent = self.paused or self.opted_out
        mode = Mode.SHADOW if silent else self.config.mode
        return replace(self.facts.target, mode=mode)

    @property
    def opted_out(self) -> bool:
        """Say whether the label that silences everything is there."""
        wanted = self.config.opt_out_label.casefold()
        return any(label.casefold() == wanted for label in self.facts.labels)

    @property
    def docs_only(self) -> bool:
        """Say whether nothing but documentation changed; a cut list of files is not known to be."""
        files = self.facts.files
        globs = self.config.docs_only
        known = bool(files) and self.facts.files_complete
        return known and all(any(matches(glob, one.path) for glob in globs) for one in files)

    @property
    def routing_only(self) -> bool:
        """Say whether the pull request gets routing at most: a draft, or documentation alone."""
        return self.facts.draft or self.docs_only

    @property
    def usable(self) -> bool:
        """Say whether anything is to be decided: open, and the configuration can be used."""
        return self.facts.state == "open" and not self.config_problems

    @property
    def own_bodies(self) -> tuple[str, ...]:
        """Return the comments that we wrote here."""
        return tuple(comment.body for comment in self.facts.comments if comment.ours)


def look_at(spec: JobSpec, clients: Clients, kinds: Sequence[str] = ()) -> Look | None:
    """Read the pull request of a job; None where it is gone. `kinds` of decisions are remembered with it."""
    if spec.number is None:
        return None
    client = clients.github
    facts = read_pull(client, spec.repo_id, spec.number, clients.installation_id)
    if facts is None:
        return None
    config, problems = repo_config(client, facts.base_sha)
    config = with_default_perf(config, client, facts.base_sha)
    handles = (*clients.handles, *(handle.removeprefix("@") for handle in config.handles))
    facts = replace(facts, handles=handles)
    frame = Frame(client.who.handle, facts.target.head_sha, clients.story_url(spec.number))
    with clients.sessions() as session:
        memory = {
            kind: store.latest_value(session, spec.repo_id, spec.number, kind) for kind in (*kinds, "pause")
        }
    paused = bool(memory["pause"].get("paused"))
    found = Look(facts, config, frame, problems, paused, memory)
    with clients.sessions() as session:
        store.remember_pull(session, replace(facts, target=found.target))
        session.commit()
    return found


def repo_config(client: RepoClient, base_sha: str) -> tuple[RepoConfig, tuple[Problem, ...]]:
    """Return the configuration at a commit (defaults where there is none) and what is wrong with it."""
    found = client.text_at(CONFIG_PATH, base_sha)
    if found is None:
        return RepoConfig(), ()
    try:
        return parse_cached(*found), ()
    except ConfigError as error:
        return RepoConfig(), error.problems
