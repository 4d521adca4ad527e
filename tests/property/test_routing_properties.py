"""Laws of routing that hold for every input: matching means what it says, asking keeps its limits."""

import contextlib
import random
import re
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from routing.codeowners import State, parse
from routing.config import PriorityConfig, RoutingConfig
from routing.logins import keys
from routing.models import ChangedFile, LinkedIssue, Person, PullRequest
from routing.modules import parse_page
from routing.ownership import Ownership
from routing.patterns import PatternError, compile_pattern
from routing.priority import prioritize
from routing.route import route

RULES = settings(max_examples=200, deadline=None)

NAMES = st.sampled_from(["a", "b", "ab", "a.py", "b.py", "docs", "x y", "é"])
GLOBS = st.sampled_from(["*", "**", "*.py", "a*", "*b", "a?", "*a*", "?", "a*b", r"\*", "x[a]", "**b"])
PATHS = st.lists(NAMES, min_size=1, max_size=5).map("/".join)


@st.composite
def patterns(draw: st.DrawFn) -> str:
    """Return a pattern of plain names and wildcards, rooted or not, for a folder or not."""
    middle = "/".join(draw(st.lists(st.one_of(NAMES, GLOBS), min_size=1, max_size=4)))
    start, end = draw(st.sampled_from(["", "/"])), draw(st.sampled_from(["", "/"]))
    return (start + middle + end).replace(" ", "\\ ")


def as_expression(pattern: str) -> re.Pattern[str]:
    """Return the pattern as a regular expression: a second reading of the rules, slow and plain."""
    names = pattern.strip("/").split("/")
    is_rooted = pattern.startswith("/") or "/" in pattern.strip("/")
    if not is_rooted:
        names = ["**", *names]
    only_below = pattern.endswith("/")
    while names and names[-1] == "**":
        names, only_below = names[:-1], True
    text = "".join("(?:[^/]+/)*" if name == "**" else as_segment(name) + "/" for name in names)
    text = text.removesuffix("/")
    one_level = names[-1:] == ["*"] and not only_below
    below = "" if one_level else "/.+" if only_below and names else ".+" if only_below else "(?:/.+)?"
    return re.compile(text + below, re.DOTALL)


def as_segment(name: str) -> str:
    """Return one segment as a regular expression."""
    if name == "*":
        return "[^/]+"
    tokens = re.findall(r"\\.|.", name, re.DOTALL)
    plain = {"*": "[^/]*", "?": "[^/]"}
    return "".join(plain.get(token) or re.escape(token[-1]) for token in tokens)


@RULES
@given(patterns(), PATHS)
def test_a_pattern_means_what_its_expression_means(pattern: str, path: str) -> None:
    expected = as_expression(pattern).fullmatch(path) is not None
    assert compile_pattern(pattern).matches(path) is expected


@RULES
@given(st.lists(patterns(), min_size=1, max_size=12), st.lists(PATHS, min_size=1, max_size=8))
def test_the_index_finds_the_last_pattern_that_matches(found: list[str], paths: list[str]) -> None:
    parsed = parse("".join(f"{pattern} @o{number}\n" for number, pattern in enumerate(found, 1)))
    assert len(parsed) == len(found)
    for path in paths:
        lines = [number for number, pattern in enumerate(found, 1) if compile_pattern(pattern).matches(path)]
        assert parsed.match(path).line == (lines[-1] if lines else None)


@RULES
@given(st.lists(patterns(), min_size=2, max_size=8), st.lists(PATHS, min_size=5, max_size=30))
def test_a_rule_called_shadowed_never_wins(found: list[str], paths: list[str]) -> None:
    parsed = parse("".join(f"{pattern} @o{number}\n" for number, pattern in enumerate(found, 1)))
    shadowed = {warning.line for warning in parsed.warnings if warning.kind == "shadowed"}
    assert shadowed.isdisjoint({parsed.match(path).line for path in paths})


@RULES
@given(st.text(max_size=300), st.text(max_size=40))
def test_no_text_breaks_the_parser(text: str, path: str) -> None:
    parsed = parse(text)
    match = parsed.match(path)
    assert (match.state is State.OWNED) == bool(match.owners)
    assert len(parsed) + len(parsed.errors) <= text.count("\n") + 1
    assert all(0 < warning.line <= text.count("\n") + 1 for warning in parsed.warnings)


@RULES
@given(st.text(alphabet="ab/*?\\[] !#@", max_size=20))
def test_a_pattern_is_compiled_or_refused_with_its_own_error(text: str) -> None:
    with contextlib.suppress(PatternError):
        compile_pattern(text).matches("a/b")


@RULES
@given(st.text(max_size=200))
def test_no_page_breaks_the_reader(text: str) -> None:
    for whole in (text, f"---\n{text}\n---\n", f'---\nowners: ["@a"]\nprimary_code_paths: {text}\n---\n'):
        page = parse_page("m/a.md", whole)
        assert page is None or page.path == "m/a.md"


PEOPLE = ["ann", "bob", "cleo", "dan", "eve", "robot[bot]", "org/team", "Ann"]
logins = st.lists(st.sampled_from(PEOPLE), max_size=4)
CODE = [
    "lib/a/x.py",
    "lib/a/y.py",
    "lib/b/x.py",
    "lib/c/x.py",
    "lib/x.py",
    "tests/a/test_x.py",
    "ci/run.sh",
    "uv.lock",
]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[PullRequest, dict[str, str], str, dict[str, Person], RoutingConfig]:
    """Return a pull request, module pages, CODEOWNERS, people and a configuration."""
    paths = draw(st.lists(st.sampled_from(CODE), min_size=1, max_size=6, unique=True))
    files = tuple(ChangedFile(path=path, additions=draw(st.integers(0, 200))) for path in paths)
    pages = {}
    for name in draw(st.lists(st.sampled_from(["a", "b", "c", "index"]), unique=True, max_size=4)):
        quoted = ", ".join(f'"@{login}"' for login in draw(logins) if "[" not in login)
        required = ", ".join(f'"@{login}"' for login in draw(logins) if "[" not in login)
        path = "lib/**" if name == "index" else f"lib/{name}/**"
        validated = f'"tests/{name}/**"'
        fields = [
            f"owners: [{quoted}]",
            f'primary_code_paths: ["{path}"]',
            f"required_reviewers: [{required}]",
        ]
        pages[f"docs/design/module/{name}.md"] = "\n".join(
            ["---", *fields, f"validation_paths: [{validated}]", "---", ""]
        )
    lines = draw(
        st.lists(st.sampled_from(["* @ann", "/lib/ @bob @Ann", "/lib/a/ @cleo", "/ci/ @dan @org/team"]))
    )
    people = {
        login: Person(
            open_requests=draw(st.integers(0, 9)), busy=draw(st.booleans()), can_review=draw(st.booleans())
        )
        for login in draw(st.lists(st.sampled_from(PEOPLE), unique_by=str.lower, max_size=4))
    }
    pr = PullRequest(
        number=draw(st.integers(1, 50)),
        author=draw(st.sampled_from(PEOPLE)),
        changed_files=files,
        draft=draw(st.booleans()),
        already_requested=tuple(draw(logins)),
        already_reviewed=tuple(draw(logins)),
        passed_over=tuple(draw(logins)),
    )
    config = RoutingConfig(ask=draw(st.integers(0, 3)), bots=("eve",))
    return pr, pages, "\n".join(lines) + "\n", people, config


@RULES
@given(worlds(), st.randoms(use_true_random=False))
def test_routing_does_not_depend_on_any_order(
    world: tuple[PullRequest, dict[str, str], str, dict[str, Person], RoutingConfig], rng: random.Random
) -> None:
    pr, pages, codeowners, people, config = world
    files = list(pr.changed_files)
    rng.shuffle(files)
    names, logins = list(pages), list(people)
    rng.shuffle(names)
    rng.shuffle(logins)
    first = route(pr, Ownership.from_texts(codeowners, pages), people, config)
    again = route(
        pr.model_copy(update={"changed_files": tuple(files)}),
        Ownership.from_texts(codeowners, {name: pages[name] for name in names}),
        {login: people[login] for login in logins},
        config,
    )
    assert again == first


@RULES
@given(worlds())
def test_asking_keeps_its_limits(
    world: tuple[PullRequest, dict[str, str], str, dict[str, Person], RoutingConfig],
) -> None:
    pr, pages, codeowners, people, config = world
    found = route(pr, Ownership.from_texts(codeowners, pages), people, config)
    asked = keys(found.ask)
    assert len(asked) == len(found.ask), "nobody twice"
    names_required = any(module.required_reviewers for module in found.modules)
    assert len(asked | keys(found.counted)) <= max(config.ask + names_required, len(found.counted))
    out = keys((pr.author, "robot[bot]", "eve", *pr.already_requested, *pr.already_reviewed, *pr.passed_over))
    assert not asked & out
    assert not keys(found.next_in_line) & (out | asked)
    shut = keys(login for login, person in people.items() if person.busy or not person.can_review)
    assert not asked & shut
    assert asked <= keys(owner.login for owner in found.owners), "who is asked has a reason"
    assert all(owner.reasons for owner in found.owners)
    assert bool(found.ask) is (found.not_asked_because is None)
    assert not (pr.draft and found.ask)


@RULES
@given(worlds())
def test_every_file_is_owned_by_somebody_or_listed_as_unowned(
    world: tuple[PullRequest, dict[str, str], str, dict[str, Person], RoutingConfig],
) -> None:
    pr, pages, codeowners, people, config = world
    found = route(
        pr, Ownership.from_texts(codeowners, pages), people, config.model_copy(update={"also_below": 0.0})
    )
    assert len(set(found.unowned_files)) == len(found.unowned_files)
    assert set(found.unowned_files) <= {file.path for file in pr.changed_files}
    if found.modules:
        assert sum(module.weight for module in found.modules) <= 1.001
    if len(found.unowned_files) == len(pr.changed_files):
        assert found.owners == ()


labels = st.lists(
    st.sampled_from(["p0", "P1", "high priority", "low priority", "ci-failure", "docs"]), max_size=3
)


@RULES
@given(
    labels,
    labels,
    st.booleans(),
    st.booleans(),
    st.sampled_from(["", "[Bugfix] x", "Revert x"]),
    st.integers(0, 5_000),
)
def test_priority_is_the_sum_of_its_reasons(
    own: list[str], linked: list[str], slower: bool, red: bool, title: str, lines: int
) -> None:
    now = datetime(2026, 9, 21, tzinfo=UTC)
    pr = PullRequest(
        number=1,
        author="a",
        title=title,
        labels=tuple(own),
        changed_files=(ChangedFile(path="a", additions=lines),),
        linked_issues=(LinkedIssue(number=2, labels=tuple(linked)),),
    )
    config = PriorityConfig()
    found = prioritize(pr, config, now, perf_regression=slower, main_is_red=red)
    assert found.score == sum(reason.points for reason in found.reasons)
    if found.level == "critical":
        assert "p0" in {*own, *linked}
    raised = prioritize(pr.model_copy(update={"labels": (*own, "p0")}), config, now)
    assert raised.score >= prioritize(pr, config, now).score
