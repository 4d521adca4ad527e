"""The life of a pull request's thread, through real deliveries, HTTP, git and SQL."""

from typing import Any

import pytest

from bot.demo.github.state import Comment

World = Any
GATED = "def rope(x):\n    return x if len(x) < 4096 else x\n"
LAYERS = "docs/design/module/layers.md"


def footer(note: str | None) -> str:
    assert note is not None
    return note.rstrip().split("\n")[-1]


def test_an_opened_pull_request_is_routed_and_triaged(world: World) -> None:
    world.open()
    route, triage = world.note("route"), world.note("triage")
    asked = world.hub.require_pull(1).requested
    assert len(asked) == 1
    assert route.split("\n")[1].startswith(f"Module owners: @{asked[0]} `owner-0")
    assert route.count("@owner") == 1
    assert "umbrella-01" not in route
    assert "`layers.md`" not in route
    assert LAYERS in route
    assert "**Priority: medium**" in triage
    assert world.note("ci") is None
    assert world.note("perf") is None
    assert world.errors == []


def test_looking_again_writes_nothing(world: World) -> None:
    world.open()
    before = world.writes()
    for action in ("edited", "labeled", "synchronize"):
        world.hub.about_pull(action, "author-01", world.hub.require_pull(1))
        world.settle()
    assert world.writes() == before
    assert len(world.decisions("route")) == 1


def test_a_draft_gets_routing_only_and_asks_nobody_until_it_is_ready(world: World) -> None:
    world.open(draft=True)
    assert "Nobody is asked for a review: it is a draft" in world.note("route")
    assert "@owner" not in world.note("route")
    assert world.note("triage") is None
    world.hub.edit_pull(1, "author-01", draft=False)
    world.settle()
    assert len(world.hub.require_pull(1).requested) == 1
    assert world.note("triage") is not None


def test_a_documentation_change_gets_routing_at_most(world: World) -> None:
    world.open("docs")
    assert world.note("route") is not None
    assert world.note("triage") is None


def test_the_opt_out_label_silences_everything_but_the_dashboard(world: World) -> None:
    world.open(labels=("no-prgate",))
    assert world.github.bot_comments(1) == []
    assert world.hub.require_pull(1).requested == []
    assert len(world.decisions("route")) == 1


def test_shadow_mode_decides_and_says_nothing(world: World) -> None:
    world.hub.commit("main", {".github/prgate.toml": 'mode = "shadow"\n'}, "Shadow", "maintainer-01")
    world.open()
    before = world.writes()
    world.say("@prgate help")
    assert world.github.bot_comments(1) == []
    assert world.writes() == before == 0
    assert world.decisions("priority")[0].value["level"] == "medium"


def test_a_broken_configuration_is_said_on_a_check_and_nothing_else_happens(world: World) -> None:
    world.hub.commit(
        "main", {".github/prgate.toml": 'mode = "comment"\nselfreview = "off"\n'}, "Oops", "maintainer-01"
    )
    world.open()
    (check,) = world.github.state.check_runs.values()
    assert (check.name, check.conclusion) == ("prgate/config", "neutral")
    assert "line 2: `selfreview`: no such key (did you mean `self_review`?)" in check.summary.replace(
        "``", ""
    )
    assert world.github.bot_comments(1) == []


def test_a_new_commit_moves_every_note_and_asks_nobody_twice(world: World) -> None:
    world.open()
    asked = list(world.hub.require_pull(1).requested)
    comments = [comment.id for comment in world.github.bot_comments(1)]
    sha = world.hub.commit("gate", {"omni/layers/rope.py": GATED}, "More", "author-01")
    world.settle()
    assert sha[:12] in footer(world.note("route"))
    assert sha[:12] in footer(world.note("triage"))
    assert [comment.id for comment in world.github.bot_comments(1)] == comments
    assert world.hub.require_pull(1).requested == asked


def test_a_push_into_another_module_asks_its_owner_too(world: World) -> None:
    world.open()
    first = list(world.hub.require_pull(1).requested)
    world.hub.commit("gate", {"omni/models/image.py": "SIZE = 2\n" * 20}, "Models", "author-01")
    world.settle()
    assert world.hub.require_pull(1).requested == [*first, "owner-04"]
    assert "@owner-04" in world.note("route")


def test_another_owner_on_the_base_means_another_person_asked(world: World) -> None:
    page = '---\ntitle: Layers\nowners: ["@owner-04"]\nprimary_code_paths: ["omni/layers/**"]\n---\n'
    codeowners = "/omni/layers/ @owner-04\n"
    world.hub.commit("main", {LAYERS: page, ".github/CODEOWNERS": codeowners}, "Owner", "maintainer-01")
    world.open()
    assert world.hub.require_pull(1).requested == ["owner-04"]


def test_a_pull_request_cannot_choose_its_own_owners_and_shows_both(world: World) -> None:
    page = '---\ntitle: Layers\nowners: ["@stranger-01"]\nprimary_code_paths: ["omni/layers/**"]\n---\n'
    world.hub.commit("gate", {LAYERS: page}, "Mine now", "author-01")
    world.open()
    assert "stranger-01" not in world.hub.require_pull(1).requested
    assert "owners of these files after it, not before: stranger-01" in world.note("route")


def test_an_approval_ends_asking_and_a_strangers_lgtm_does_not(world: World) -> None:
    world.open(draft=True)
    world.say("LGTM. Thanks", user="stranger-01")
    assert "Approved by" not in world.note("route")
    world.say("LGTM. Thanks", user="maintainer-01")
    assert "Approved by `maintainer-01`: nobody else is asked." in world.note("route")
    world.hub.edit_pull(1, "author-01", draft=False)
    world.settle()
    assert world.hub.require_pull(1).requested == []


def test_an_approving_review_counts_until_changes_are_requested(world: World) -> None:
    world.open()
    world.hub.review(1, "owner-03", "APPROVED")
    world.settle()
    assert "Approved by `owner-03`" in world.note("route")
    world.hub.review(1, "owner-03", "CHANGES_REQUESTED", "wait")
    world.settle()
    assert "Approved by" not in world.note("route")


class TestSelfReview:
    def test_a_paste_of_the_bots_text_is_none_and_does_nothing_else(self, world: World) -> None:
        world.open()
        world.say(world.note("route"), user="author-01")
        assert "- [ ] `author-01`" in world.note("route")
        assert world.answers() == []

    def test_the_authors_words_below_the_paste_are_one_and_are_ticked_off(self, world: World) -> None:
        world.open()
        words = (
            "This adds a minimum for the fused kernel: until now any number of tokens used it, but it "
            "only gains when there are enough of them."
        )
        comment: Comment = world.say(f"{world.note('route')}\n\n{words}", user="author-01")
        assert "- [x] [Self-review]" in world.note("route")
        assert str(comment.id) in world.note("route")

    @pytest.mark.parametrize(
        ("body", "done"),
        [
            ("Self-review: I checked 2,047 and 2,048 tokens and a batch of two by hand.", True),
            ("> a short self-review helps whoever looks next\n\nok", False),
            ("self-review done", False),
            (
                "The red Simple Diffusion Test of build 15934 is unrelated to this pull request, see main.",
                False,
            ),
            ("Thanks! I will rebase and push again as soon as the other change has landed on main.", False),
        ],
    )
    def test_it_takes_own_words_about_the_change(self, world: World, body: str, done: bool) -> None:
        world.open()
        world.say(body, user="author-01")
        assert ("- [x]" in world.note("route")) is done

    def test_somebody_elses_words_are_not_the_authors(self, world: World) -> None:
        world.open()
        world.say("Self-review: I checked 2,047 and 2,048 tokens and a batch of two by hand.")
        assert "- [ ]" in world.note("route")

    def test_before_request_holds_the_request_until_then(self, world: World) -> None:
        config = 'self_review = "before_request"\n'
        world.hub.commit("main", {".github/prgate.toml": config}, "Strict", "maintainer-01")
        world.open()
        assert world.hub.require_pull(1).requested == []
        assert "the self\\-review" in world.note(
            "route"
        ) or "the self-review of author-01 comes first" in world.note("route")
        world.say(
            "Self-review: I checked 2,047 and 2,048 tokens and a batch of two by hand.", user="author-01"
        )
        assert len(world.hub.require_pull(1).requested) == 1


def test_a_closed_pull_request_is_left_alone(world: World) -> None:
    world.open()
    world.hub.close(1, "maintainer-01", merged=True)
    world.settle()
    before = world.writes()
    world.hub.edit_pull(1, "author-01", title="Other")
    world.say("@prgate bench")
    assert world.decisions("closed")[0].value == {"how": "merged"}
    assert "This pull request is closed." in world.answers()[0]
    assert world.writes() == before + 2  # the reaction and the answer


def test_labels_follow_the_priority_where_that_is_configured(world: World) -> None:
    world.hub.commit(
        "main", {".github/prgate.toml": "[priority]\nsync_labels = true\n"}, "Labels", "maintainer-01"
    )
    world.open()
    assert "priority: medium" in world.hub.require_pull(1).labels
    world.say("@prgate priority high")
    assert "priority: high" in world.hub.require_pull(1).labels
    assert "priority: medium" not in world.hub.require_pull(1).labels


def test_a_linked_issues_labels_count_and_a_change_of_them_is_noticed(world: World) -> None:
    world.hub.open_issue(7780, "Slow", "It is slow.", "maintainer-01", ("high priority",))
    world.open(body="Fixes #7780")
    assert "**Priority: high**" in world.note("triage")
    assert "7780" in world.note("triage")
    issue = world.hub.require_issue(7780)
    issue.labels = []
    world.hub.emit("issues", "unlabeled", "maintainer-01", issue=world.hub.shapes.issue(issue))
    world.settle()
    assert "**Priority: medium**" in world.note("triage")
