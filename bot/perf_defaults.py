"""Fills a configuration without cases from the repository's own benchmark suites at the base commit."""

from bot.config import RepoConfig
from bot.github import RepoClient
from perf_runner.default_paths import default_map, with_default_cases

MOST_SUITES = 60
SUITE_LIMIT = 256_000


def with_default_perf(config: RepoConfig, client: RepoClient, base_sha: str) -> RepoConfig:
    """Return the configuration with default cases and paths where it names no case and has such suites."""
    if config.perf.cases or config.perf.when == "never":
        return config
    folder = default_map().suites
    entries = client.lasting(f"folder:{folder}", base_sha, read=lambda: client.folder(folder, base_sha))
    files = [
        one for one in entries if one.get("type") == "file" and str(one.get("name", "")).endswith(".json")
    ]
    small = [one for one in files if int(one.get("size") or 0) <= SUITE_LIMIT][:MOST_SUITES]
    texts = {str(one["name"]): client.blob(str(one["sha"])) for one in small}
    return config.model_copy(update={"perf": with_default_cases(config.perf, texts)})
