"""Files to modules to owners: who is named, for which reasons, and what is only mentioned."""

import pytest

from routing.config import RoutingConfig
from routing.models import By, ChangedFile, LinkedIssue, Owner, PullRequest, Route
from routing.ownership import Ownership
from routing.route import ownership_changes, route
from tests.routing.world import CODEOWNERS, PAGES, ownership, page, pull

CONFIG = RoutingConfig()


def routed(pr: PullRequest, owned: Ownership | None = None) -> Route:
    return route(pr, owned or ownership(), {}, CONFIG)


def pages(found: Route) -> list[str]:
    return [module.page.removeprefix("docs/design/module/").removesuffix(".md") for module in found.modules]


def reasons(found: Route, login: str) -> tuple[str, ...]:
    return next(owner for owner in found.owners if owner.login == login).reasons


def test_a_kernel_change_asks_one_owner_of_its_module_and_only_names_the_related_one() -> None:
    files = [
        "lib/models/a.py",
        "lib/models/b.py",
        "lib/layers/norm.py",
        "tests/models/test_a.py",
        "tests/layers/test_b.py",
    ]
    found = routed(pull(*files))
    assert pages(found) == ["models"]
    assert [owner.login for owner in found.owners] == ["ann", "bob", "cleo", "dan"]
    assert len(found.ask) == 1
    assert found.ask[0] in {"ann", "bob"}, "those whom CODEOWNERS names too come first"
    assert found.also_touches == ("docs/design/module/offload_engine.md",)
    assert found.unowned_files == ("lib/layers/norm.py",), "nobody is asked for what only the umbrella owns"
    assert {(file.path, file.by) for file in found.modules[0].files} == {
        ("lib/models/a.py", By.PRIMARY),
        ("lib/models/b.py", By.PRIMARY),
        ("lib/layers/norm.py", By.RELATED),
        ("tests/models/test_a.py", By.VALIDATION),
        ("tests/layers/test_b.py", By.VALIDATION),
    }


def test_each_owner_has_every_reason() -> None:
    issues = (
        LinkedIssue(number=3, title="[Model Integration] slow", assignees=("@Bob",)),
        LinkedIssue(number=4, title="other"),
    )
    pr = pull("lib/models/a.py", body="See docs/design/module/models.md for the why.", linked_issues=issues)
    found = routed(pr)
    assert reasons(found, "bob") == (
        "module of the changed files: docs/design/module/models.md (1 file)",
        "module named in the description: docs/design/module/models.md",
        "linked issue #3 names the module",
        "CODEOWNERS line 5",
        "linked issue #3 is assigned to them",
    )
    assert "CODEOWNERS line 5" not in reasons(found, "cleo")


@pytest.mark.parametrize(
    ("title", "body", "is_named"),
    [
        ("Tune", "changes the Weight Offloading path", True),
        ("Tune", "offload engine: faster", True),
        ("Tune", "see offload_engine.md", True),
        ("[Weight Offloading] Tune", "", True),
        ("Tune", "we offload a weight", False),
        ("Tune", "the engine", False),
    ],
)
def test_a_module_is_named_by_page_file_title_or_tag(title: str, body: str, is_named: bool) -> None:
    found = routed(pull("lib/offload/a.py", title=title, body=body))
    named = "module named in the description: docs/design/module/offload_engine.md"
    assert (named in reasons(found, "olga")) is is_named


def test_a_named_module_that_owns_nothing_here_is_mentioned_and_not_asked() -> None:
    found = routed(pull("lib/models/a.py", body="like in runtime.md"))
    assert "docs/design/module/runtime.md" in found.also_touches
    assert not {"rosa", "sam"} & {owner.login for owner in found.owners}


def test_weights_are_shares_of_changed_lines_and_a_small_share_is_only_named() -> None:
    found = routed(pull(("lib/models/a.py", 199), ("lib/offload/a.py", 99), ("lib/errors/a.py", 9)))
    assert pages(found) == ["models", "offload_engine"]
    assert [module.weight for module in found.modules] == [
        pytest.approx(200 / 310, abs=1e-4),
        pytest.approx(100 / 310, abs=1e-4),
    ]
    assert found.also_touches == ("docs/design/module/errors.md",)
    assert len(found.ask) == 2


def test_generated_files_weigh_nothing_unless_there_is_nothing_else() -> None:
    both = routed(pull(("lib/models/package-lock.json", 5_000), ("lib/offload/a.py", 3)))
    assert pages(both) == ["offload_engine"]
    assert pages(routed(pull(("lib/models/package-lock.json", 5_000)))) == ["models"]


def test_a_rename_counts_for_the_place_it_left() -> None:
    file = ChangedFile(path="lib/offload/a.py", previous_path="lib/models/a.py", status="renamed")
    pr = PullRequest(number=1, author="author", changed_files=(file,))
    assert set(pages(routed(pr))) == {"models", "offload_engine"}


def test_the_longest_plain_beginning_wins() -> None:
    found = routed(pull("lib/runtime/batch/a.py"))
    assert pages(found) == ["scheduler"]


def test_overlapping_pages_share_a_file_and_a_note_says_so() -> None:
    found = routed(pull("lib/sched/a.py"))
    assert pages(found) == ["batching", "scheduler"]
    assert [module.weight for module in found.modules] == [0.5, 0.5]
    assert (
        "docs/design/module/batching.md and docs/design/module/scheduler.md own the same files" in found.notes
    )


def test_an_exception_hands_a_file_to_another_page() -> None:
    found = routed(pull("lib/runtime/errors.py"))
    assert pages(found) == ["errors"]
    assert found.modules[0].files[0].by is By.EXCEPTION
    assert found.ask == ("erik",)


def test_an_exception_to_a_page_that_is_not_there_leaves_the_file_to_the_umbrella() -> None:
    found = routed(pull("lib/runtime/lost/a.py"))
    assert pages(found) == ["lib/index"]
    together = routed(pull("lib/runtime/lost/a.py", "lib/runtime/b.py"))
    assert pages(together) == ["runtime"]
    assert together.unowned_files == ("lib/runtime/lost/a.py",)
    assert (
        "docs/design/module/runtime.md links to docs/design/module/nowhere.md, which is not there"
        in together.notes
    )


def test_the_umbrella_is_asked_only_when_no_module_owns_a_file() -> None:
    assert set(routed(pull("lib/layers/a.py")).ask) <= {"uma", "umberto"}
    without_page = Ownership.from_texts(
        CODEOWNERS, {name: text for name, text in PAGES.items() if "index" not in name}
    )
    assert routed(pull("lib/layers/a.py"), without_page).ask == ("lib-all",)
    mixed = routed(pull("lib/layers/a.py", "lib/errors/a.py"))
    assert mixed.ask == ("erik",)
    assert mixed.unowned_files == ("lib/layers/a.py",)


def test_a_line_of_codeowners_beside_modules_is_asked_as_a_module_is() -> None:
    found = routed(pull("lib/errors/a.py", "ci/run.sh", "lib/layers/x.proto"))
    assert pages(found) == ["errors"]
    assert "erik" in found.ask
    assert reasons(found, "ci-lead") == ("CODEOWNERS line 2 `/ci/` (1 file)",)
    assert reasons(found, "wire") == ("CODEOWNERS line 7 `*.proto` (1 file)",)


def test_a_repository_with_codeowners_alone_is_routed_by_its_lines() -> None:
    found = routed(pull(("ci/run.sh", 30), ("README.md", 10)), Ownership.from_texts(CODEOWNERS, {}))
    assert found.modules == ()
    assert len(found.ask) == 2
    assert found.ask[1] == "star"
    assert found.drift == ()


def test_cleared_and_unmatched_files_have_no_owner() -> None:
    found = routed(pull("docs/generated/api.md"), ownership("/docs/generated/\n"))
    assert found.unowned_files == ("docs/generated/api.md",)
    assert (found.ask, found.not_asked_because) == ((), "nobody owns the changed files")


def test_a_pull_request_of_tests_alone_goes_to_the_validated_module() -> None:
    found = routed(pull("tests/offload/test_a.py"))
    assert pages(found) == ["offload_engine"]
    assert found.modules[0].files[0].by is By.VALIDATION
    assert reasons(found, "olga") == (
        "module of the changed files: docs/design/module/offload_engine.md (1 file)",
    )


def test_an_edit_of_a_page_goes_to_its_stewards() -> None:
    found = routed(pull("docs/design/module/runtime.md"))
    assert "stella" in found.ask
    assert found.edits_ownership


def test_a_part_of_a_module_brings_its_own_owners() -> None:
    text = page('"@ann"', '"pkg/**"', primary_code_path_owners='[{paths: ["pkg/fast/**"], owners: ["@flo"]}]')
    found = routed(pull("pkg/fast/a.py"), ownership(None, pkg=text))
    assert [owner.login for owner in found.owners] == ["ann", "flo"]
    assert [owner.login for owner in routed(pull("pkg/a.py"), ownership(None, pkg=text)).owners] == ["ann"]


def test_drift_shows_both_sides_and_ignores_case_and_order() -> None:
    found = routed(
        pull("lib/models/a.py", "lib/offload/a.py"),
        ownership(CODEOWNERS.replace("@olga @pete", "@Pete @OLGA")),
    )
    (drift,) = found.drift
    assert drift.path == "lib/models/a.py"
    assert drift.page_owners == ("@ann", "@bob", "@cleo", "@dan")
    assert drift.codeowners == ("@ann", "@bob")


def test_a_pull_request_that_edits_ownership_shows_both_sides() -> None:
    pr = pull("docs/design/module/errors.md", "lib/errors/a.py")
    before = routed(pr)
    after = routed(pr, ownership(errors=page('"@eve"', '"lib/errors/**"')))
    assert before.edits_ownership
    change = ownership_changes(before, after)
    assert (change.added, change.removed) == (("eve",), ("erik",))
    assert not routed(pull("lib/errors/a.py")).edits_ownership
    assert routed(pull(".github/CODEOWNERS")).edits_ownership


def test_one_person_under_two_spellings_is_one_owner() -> None:
    text = page('"@Ann", "@ann"', '"pkg/**"')
    found = routed(pull("pkg/a.py"), ownership("/pkg/ @ANN\n", pkg=text))
    assert [owner.login for owner in found.owners] == ["Ann"]
    assert found.drift == ()


def test_a_page_that_cannot_be_read_claims_nothing() -> None:
    found = routed(pull("lib/errors/a.py"), ownership(errors="---\nowners: [@erik]\n---\n"))
    assert pages(found) == ["lib/index"]


def test_a_route_is_a_value_that_survives_json() -> None:
    found = routed(pull("lib/models/a.py", "lib/layers/a.py"))
    assert Route.model_validate_json(found.model_dump_json()) == found
    assert isinstance(found.owners[0], Owner)
