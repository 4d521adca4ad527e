"""`triage`: how urgent is this pull request, by signals that anybody can check."""

from dataclasses import dataclass
from datetime import datetime

from bot.actions import Action, Record, SetLabels, UpsertComment
from bot.clients import Clients
from bot.comments import PriorityView, triage_note
from bot.dispatch import Handler, JobSpec
from bot.gathering import Look, look_at
from bot.ownership import read_ownership
from bot.routing_view import CiState, routing_pull
from routing.models import Level, Module, Priority
from routing.priority import LARGEST, SIZES, prioritize, priority_label, size_label
from routing.route import route

CI_STATES: dict[str, CiState] = {
    "regression": "red",
    "unknown": "red",
    "green": "green",
    "pending": "pending",
}


@dataclass(frozen=True, slots=True)
class TriageFacts:
    """What the priority is decided on."""

    look: Look
    modules: tuple[Module, ...] = ()
    main_is_red: bool = False


def gather(spec: JobSpec, clients: Clients) -> TriageFacts | None:
    """Read the pull request, the modules it touches, and how its base branch is."""
    look = look_at(spec, clients, ("override", "ci", "perf", "route", "skip"))
    if look is None:
        return None
    if not look.usable:
        return TriageFacts(look)
    ownership = read_ownership(clients.github, look.facts.base_sha, look.config.routing.module_pages)
    modules = route(routing_pull(look), ownership, {}, look.config.routing).modules
    status = clients.github.get(f"/commits/{look.facts.base_sha}/status") or {}
    return TriageFacts(look, modules, status.get("state") == "failure")


def decide(facts: TriageFacts, now: datetime) -> list[Action]:
    """Return the triage note and the record; a draft or a documentation change is only recorded."""
    look = facts.look
    if not look.usable:
        return []
    found = priority_of(facts, now)
    by = str(look.memory["override"].get("by") or "") or None
    record = Record("priority", {**found.model_dump(mode="json"), "override_by": by})
    if look.routing_only:
        return [record]
    view = PriorityView(found.level.value, tuple((one.signal, one.points) for one in found.reasons), by)
    return [UpsertComment("triage", triage_note(view, look.frame)), *labels(facts, found), record]


def priority_of(facts: TriageFacts, now: datetime) -> Priority:
    """Return the priority by the configured points, or what a maintainer set."""
    memory = facts.look.memory
    ci = CI_STATES.get(str(memory["ci"].get("overall")))
    return prioritize(
        routing_pull(facts.look, ci=ci),
        facts.look.config.priority,
        now,
        modules=facts.modules,
        perf_regression=memory["perf"].get("decision") == "regression",
        main_is_red=facts.main_is_red,
        override=memory["override"].get("level"),
    )


def labels(facts: TriageFacts, found: Priority) -> list[Action]:
    """Return the labels that keep priority and size in sight, where the repository asked for them."""
    config = facts.look.config.priority
    wanted: list[str] = []
    ours: list[str] = []
    if config.sync_labels:
        wanted.append(priority_label(found.level))
        ours += [priority_label(level) for level in Level]
    if config.size_labels:
        wanted.append(size_label(routing_pull(facts.look), config))
        ours += [f"size/{name}" for name in (*(name for _, name in SIZES), LARGEST)]
    if not ours:
        return []
    return [SetLabels(tuple(wanted), tuple(name for name in ours if name not in wanted))]


HANDLER = Handler("triage", gather, decide, lambda facts: facts.look.target)
