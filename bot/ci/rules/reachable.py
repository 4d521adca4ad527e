"""What the import graph adds: does the failing test reach a changed file? It never decides."""

from bot.ci.evidence import Evidence, count
from bot.ci.scene import Case, Scene


def imports_say(case: Case, scene: Scene) -> Evidence | None:
    """The base's import graph leads from the failing test to a changed file, or to none of them."""
    file = case.failure.file
    reached = scene.reach.of(file) if scene.reach else None
    if reached is None or not scene.files_known:
        return None
    if reached:
        says = f"`{file}` reaches the changed `{reached[0]}` by imports."
        return Evidence("changed_file_reachable", "weak", says)
    files = count(len(scene.files), "changed file")
    says = f"None of the {files} is reachable by imports from `{file}`; that supports, it does not prove."
    return Evidence("no_changed_file_reachable", "weak", says)
