"""How well a tree is owned: coverage, single owners, load, drift, rules that decide nothing."""

from routing.ownership import Ownership
from routing.report import report
from tests.routing.world import CODEOWNERS, ownership, page

FILES = [
    "lib/models/a.py",
    "lib/models/b.py",
    "lib/sched/a.py",
    "lib/layers/a.py",
    "README.md",
    "docs/generated/api.md",
    "lib/offload/wire.proto",
]


def test_files_are_counted_by_how_many_modules_own_them() -> None:
    counts = report(ownership(), FILES).coverage
    assert (counts.files, counts.one_module, counts.several_modules, counts.no_module, counts.no_owner) == (
        7,
        3,
        1,
        3,
        1,
    )


def test_modules_with_one_owner_or_none_are_named() -> None:
    found = report(ownership(lonely="---\nowners: []\nprimary_code_paths: [x/**]\n---\n"), FILES)
    assert found.bus_factor_one == ("docs/design/module/batching.md", "docs/design/module/errors.md")
    assert found.without_owners == ("docs/design/module/lonely.md",)


def test_load_is_counted_by_person() -> None:
    first = report(ownership(), FILES).people[0]
    assert (first.login, first.modules, first.files) == ("ann", 2, 3)


def test_dangling_links_and_faults_of_pages_are_listed() -> None:
    found = {
        module.page: module for module in report(ownership(bad="---\nowners: [@x]\n---\n"), FILES).modules
    }
    assert found["docs/design/module/offload_engine.md"].dangling_links == ("docs/design/module/gone.md",)
    assert "quotes" in found["docs/design/module/bad.md"].problems[0]


def test_drift_is_judged_by_each_primary_path() -> None:
    drift = {one.path: one for one in report(ownership(), []).drift}
    assert "lib/offload/**" not in drift
    assert drift["lib/models/**"].codeowners == ("@ann", "@bob")
    assert drift["lib/sched/**"].page_owners == ("@bea", "@sue", "@ann")
    assert drift["lib/errors/**"].codeowners == ("@lib-all",)


def test_globs_inside_names_are_judged_too() -> None:
    text = page('"@ann"', '"pkg/*_kernel?.cu", "pkg/*/quant/**"')
    drift = report(Ownership.from_texts("/pkg/ @bob\n", {"m/a.md": text}), []).drift
    assert [one.path for one in drift] == ["pkg/*/quant/**", "pkg/*_kernel?.cu"]


def test_rules_that_decide_about_no_file_are_listed() -> None:
    found = report(ownership(CODEOWNERS + "/lob/typo/ @ann\n"), FILES)
    assert [(rule.line, rule.pattern) for rule in found.unused_rules] == [
        (2, "/ci/"),
        (3, "/tests/"),
        (6, "/lib/offload/"),
        (9, "/lob/typo/"),
    ]
    assert report(Ownership.from_texts(None, {}), FILES).unused_rules == ()
