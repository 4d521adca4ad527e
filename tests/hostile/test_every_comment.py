"""Every text that reaches a thread: no value of a stranger passes unescaped, whatever it holds.

Two proofs: over the templates (each expression is escaped, or one of ours that is listed here), and over
the comments themselves, with every text in their facts replaced by a hostile one.
"""

import dataclasses
import enum
import re
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from jinja2 import nodes
from pydantic import BaseModel

from bot.bisect_note import BisectView, NamedCommit, bisect_note
from bot.ci.snapshot import SettleRun
from bot.ci_note import CiView, ci_note, explain
from bot.comments import (
    Frame,
    PriorityView,
    answer,
    environment,
    misunderstanding,
    refusal,
    route_note,
    triage_note,
)
from bot.escape import COMMENT_LIMIT
from bot.nightly.issue import IssueView, after_comment, body, title
from bot.nightly.source import Commit
from bot.nightly.story import CaseRow, NightRow
from bot.perf_note import PerfView, perf_note
from bot.review.models import Finding
from bot.review_note import finding_line, remark
from bot.settle_note import SettleView, settle_note
from perf_runner.bisect_run import BisectRecord
from perf_runner.history.tips import Tip
from tests.bot.comments.test_escape import NASTY, rendered
from tests.bot.comments.test_notes import GROUP, MINE, ROUTE, SLOWER, UNKNOWN

FRAME = Frame("prgate", "4d72f6802947c0ffee", "https://prgate.example/pr/org/name/1")
ESCAPING = {"text", "prose", "code", "block", "login", "mention", "sha", "signed", "evidence"}
NUMBERS = {"length", "format"}
# What a template shows as it is: sentences, numbers, dates and closed words that our own code makes.
OURS = {
    "_footer.md.j2": {"at", "hint", "version"},
    "answer.md.j2": {"paragraph"},
    "bisect.md.j2": {
        "advice", "change", "culprit_change", "headline", "hunted", "probe.side.value", "record.runs_used",
        "shown", "view.ahead",
    },
    "ci.md.j2": {
        "at", "group.count", "hidden", "kinds[]", "next_steps[]", "opening", "shown_tests", "status_step",
        "title", "titles[]",
    },
    "help.md.j2": {"at", "spec.says", "spec.usage", "spec.who.value"},
    "misunderstood.md.j2": {"at", "suggestion"},
    "nightly.md.j2": {
        "advice", "row.days", "row.night", "row.since", "row.unit", "shown_cases", "shown_commits",
        "view.fix", "view.flagged.night", "view.good.night", "view.total",
    },
    "nightly_after.md.j2": {"since", "since[]", "since[]|upper", "view.fix"},
    "perf.md.j2": {
        "advice", "decision.decision.value|replace", "decision.runs_used", "headline", "machine.cpu_cores",
        "machine.gpu_count", "of", "row.block", "shown_blocks", "view.ahead",
    },
    "refusal.md.j2": {"needs", "verb"},
    "review.md.j2": {"finding()", "line", "placed"},
    "route.md.j2": {"at", "module.weight_pct"},
    "settle.md.j2": {"advice", "headline", "hidden", "line.base", "line.head", "view.ahead"},
    "triage.md.j2": {"at"},
}  # fmt: skip


def spelled(node: Any) -> str:
    """Return an expression of a template as it is listed above."""
    if isinstance(node, nodes.Name):
        return str(node.name)
    if isinstance(node, nodes.Getattr):
        return f"{spelled(node.node)}.{node.attr}"
    if isinstance(node, nodes.Getitem):
        return f"{spelled(node.node)}[]"
    if isinstance(node, nodes.Call):
        return f"{spelled(node.node)}()"
    return f"{spelled(node.node)}|{node.name}" if isinstance(node, nodes.Filter) else type(node).__name__


def shown_raw(node: Any) -> Iterator[str]:
    """Yield the expressions that a template shows without an escaping filter."""
    if isinstance(node, nodes.TemplateData | nodes.Const):
        return
    if isinstance(node, nodes.Filter) and node.name in ESCAPING | NUMBERS:
        return
    if isinstance(node, nodes.Call) and spelled(node.node) in ("link", "footer"):
        return
    if isinstance(node, nodes.CondExpr):
        inner = [node.expr1, *([node.expr2] if node.expr2 else [])]
    elif isinstance(node, nodes.BinExpr):
        inner = [node.left, node.right]
    else:
        inner = node.nodes if isinstance(node, nodes.Concat) else []
    if not inner:
        yield spelled(node)
    for part in inner:
        yield from shown_raw(part)


def test_every_template_is_listed() -> None:
    assert set(environment().list_templates()) == set(OURS)


@pytest.mark.parametrize("name", OURS)
def test_what_a_template_shows_is_escaped_or_ours(name: str) -> None:
    made = environment()
    assert made.loader is not None
    tree = made.parse(made.loader.get_source(made, name)[0])
    shown = {
        one for output in tree.find_all(nodes.Output) for node in output.nodes for one in shown_raw(node)
    }
    assert shown == OURS[name]


def poisoned(value: Any, poison: Callable[[str], str]) -> Any:
    """Return a value with each of its free texts replaced; closed words, dates and numbers stay."""
    if isinstance(value, enum.Enum):
        return value
    if isinstance(value, str):
        return poison(value)
    if isinstance(value, tuple | list | frozenset):
        return type(value)(poisoned(one, poison) for one in value)
    if isinstance(value, BaseModel):
        fields = {name: getattr(value, name) for name in type(value).model_fields}
        return value.model_copy(update={name: poisoned(one, poison) for name, one in fields.items()})
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return dataclasses.replace(value, **{name: poisoned(getattr(value, name), poison) for name in names})
    if isinstance(value, dict):
        return {name: poisoned(one, poison) for name, one in value.items()}
    return value


SHA = re.compile(r"[0-9a-f]{7,40}")
# Words that our own code chooses from a list, and by which a note takes another form.
CLOSED = {
    "regression", "unrelated", "unknown", "broken_trunk", "caused_by_pr", "queued", "running", "done",
    "failed", "canceled", "void", "open", "partly", "recovered", "wanted", "base", "head", "high",
    "diffuse", "decode", "s", "%",
}  # fmt: skip


def with_text(text: str) -> Callable[[str], str]:
    """Return what replaces every text of a view by `text`; commits and closed words stay."""

    def poison(value: str) -> str:
        return value if not value or value in CLOSED or SHA.fullmatch(value) else text

    return poison


def answered(*paragraphs: str) -> str:
    """Return an answer to a comment."""
    return answer("answer:7", FRAME, paragraphs)


RECORD = BisectRecord(
    good="a" * 40, bad="b" * 40, case="case", says="words",
    candidates=("c" * 40, "d" * 40), skipped=("e" * 40,),
)  # fmt: skip
NIGHT = date(2026, 9, 1)
ISSUE = IssueView(
    key="0123456789abcdef",
    family="family",
    hardware="hardware",
    state="partly",
    cases=(CaseRow("test", "config", "metric", "s", 2.0, 1.8, -10.0, 3, NIGHT, False),),
    nights=(NightRow(NIGHT, "a" * 40, 2.0, -10.0, True, (True,)),),
    suspects=("b" * 40,),
    no_commits="words",
    experiment="words",
    run_url="https://prgate.example/run/1",
    gap="words",
    signs=("words",),
)
FINDING = Finding(
    rule="rule", severity="high", path="path", line=3, says="words", do="words", source="source"
)
PERF = PerfView(
    "queued", ("case",), "a3dee6fdf000", queue="queue", asked_by="someone", ahead=2, progress="words"
)
NOTES: dict[str, tuple[Any, Callable[[Any], str]]] = {
    "route": (ROUTE, lambda view: route_note(view, FRAME)),
    "triage": (PriorityView("high", (("words", 3),), "someone"), lambda view: triage_note(view, FRAME)),
    "ci": (
        CiView((GROUP, UNKNOWN, MINE), ("name",), True, claim_by="someone", notes=("words",)),
        lambda view: ci_note(view, FRAME),
    ),
    "why": ((GROUP, UNKNOWN, MINE), lambda view: answered(*explain(view, "@prgate"))),
    "perf, queued": (PERF, lambda view: perf_note(view, FRAME)),
    "perf, done": (
        dataclasses.replace(PERF, state="done", results=(SLOWER,)),
        lambda view: perf_note(view, FRAME),
    ),
    "perf, failed": (
        dataclasses.replace(PERF, state="failed", error="words"),
        lambda view: perf_note(view, FRAME),
    ),
    "settle, queued": (
        SettleView("queued", ("test",), "b" * 40, "queue", "someone", progress="words"),
        lambda view: settle_note(view, FRAME),
    ),
    "settle, done": (
        SettleView("done", ("test",), "b" * 40, outcomes=(SettleRun(test="test", could_not="words"),)),
        lambda view: settle_note(view, FRAME),
    ),
    "bisect, running": (
        BisectView("running", "case", "a" * 40, "b" * 40, "queue", "someone", progress="words"),
        lambda view: bisect_note(view, FRAME),
    ),
    "bisect, done": (
        BisectView("done", "case", "a" * 40, "b" * 40, record=RECORD),
        lambda view: bisect_note(view, FRAME),
    ),
    "bisect, named": (
        BisectView(
            "done", "case", "a" * 40, "b" * 40, record=RECORD,
            commit=NamedCommit("c" * 40, "title", "someone", "https://x.example/c"),
        ),
        lambda view: bisect_note(view, FRAME),
    ),
    "nightly": (ISSUE, lambda view: body(view, FRAME)),
    "nightly, commits": (
        dataclasses.replace(
            ISSUE, no_commits="", commits=(Commit("c" * 40, "title", "someone", ("path",)),),
            good=Tip(NIGHT, "a" * 40, False), flagged=Tip(NIGHT, "b" * 40, True),
        ),
        lambda view: body(view, FRAME),
    ),
    "nightly, after": (ISSUE, lambda view: after_comment(view, FRAME)),
    "misunderstood": ("words", lambda said: answered(misunderstanding(FRAME, said, None))),
    "refusal": ("words", lambda has: answered(refusal(FRAME, "bench", "someone", has))),
    "remark": (FINDING, remark),
    "finding": (FINDING, finding_line),
}  # fmt: skip


def structure(markdown: str) -> list[str]:
    """Return the elements of a comment as it renders, but for code spans, which a sentence may hold."""
    return [tag for tag in rendered(markdown).seen if tag not in ("br", "code")]


@pytest.mark.parametrize("name", NOTES)
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.differing_executors])
@given(nasty=NASTY)
def test_hostile_facts_change_no_comments_structure(name: str, nasty: str) -> None:
    view, note = NOTES[name]
    hostile = note(poisoned(view, with_text(f"x {nasty} y")))
    harmless = note(poisoned(view, with_text("x y")))
    assert structure(hostile) == structure(harmless)
    shown = rendered(hostile)
    assert not re.search(r"@(?!prgate\b)\w", shown.text)
    assert not re.search(r"#\d|\bGH-\d", shown.text)
    assert shown.seen.count("!--") == hostile.startswith("<!-- prgate:")
    assert not any(line.lstrip().startswith("<!--") for line in hostile.split("\n")[1:])


@pytest.mark.parametrize("name", NOTES)
def test_facts_without_end_make_a_comment_that_fits(name: str) -> None:
    view, note = NOTES[name]
    for text in ("x y " * 100_000, "`" * 100_000, "x\n" * 100_000, "| a " * 100_000):
        assert len(note(poisoned(view, with_text(text)))) <= COMMENT_LIMIT


def test_a_note_about_more_than_fits_is_cut_and_says_so() -> None:
    group = dataclasses.replace(GROUP, tests=tuple(f"tests/{'x' * 250}::test_{n}" for n in range(600)))
    text = ci_note(CiView((group,) * 50, ("name",), True), FRAME)
    assert len(text) <= COMMENT_LIMIT
    assert text.count("<details>") == text.count("</details>")


@given(nasty=NASTY)
def test_an_issues_title_is_one_line_of_at_most_256_characters(nasty: str) -> None:
    made = title(poisoned(ISSUE, with_text(f"x {nasty * 50} y")))
    assert len(made) <= 256
    assert not re.search(r"[\n\r\x00-\x1f]", made)
