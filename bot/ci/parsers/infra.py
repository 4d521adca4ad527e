"""The closed list of lines that machines and services write, not code under test.

A line here is a hint, never a verdict: a crashed server under test refuses connections too, so the wide ones
(`Connection refused`, exit 137) are not in it.
"""

import re
from collections.abc import Sequence

from bot.ci.failures import InfraMark, cut

PATTERNS: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = (
    ("agent lost", ("agent", "runner"), re.compile(
        r"\bagent (?:was )?lost\b|agent lost connection|the self-hosted runner.{0,80}lost communication"
        r"|the hosted runner.{0,80}lost communication|runner has received a shutdown signal"
        r"|the runner has been shut ?down|the agent (?:was|has been) stopped|agent refused", re.M | re.I)),
    ("checkout failed", ("fatal:", "git", "checkout"), re.compile(
        r"^fatal: (?:unable to access|could not read from remote|unable to look up|the remote end hung up"
        r"|early EOF|fetch-pack|reference is not a tree|couldn't find remote ref)"
        r"|git checkout failed|getting new credentials failed|error: RPC failed", re.M | re.I)),
    ("image pull failed", ("pull", "manifest", "toomanyrequests", "registry"), re.compile(
        r"toomanyrequests|manifest unknown|error pulling image|failed to pull image|pull access denied"
        r"|docker: error response from daemon: (?:get|head) |error response from daemon: .{0,80}registry"
        r"|i/o timeout.{0,80}registry|tls handshake timeout", re.M | re.I)),
    ("container runtime failed", ("nvidia", "container", "oci"), re.compile(
        r"nvidia-container-cli: |failed to create shim task|oci runtime create failed"
        r"|could not select device driver", re.M | re.I)),
    ("device not usable", ("driver", "device", "nvml", "gpu", "npu"), re.compile(
        r"cuda driver initialization failed|failed to initialize nvml|nvidia-smi has failed"
        r"|unable to determine the device handle|no cuda gpus are available|rsmi_status_init_error"
        r"|drv(?:GetDevNum|Init) failed|dcmi module initialize failed", re.M | re.I)),
    ("disk full", ("space",), re.compile(r"no space left on device|disk quota exceeded", re.M | re.I)),
    ("network unreachable", ("resol", "unreachable", "dial tcp", "route to host"), re.compile(
        r"could not resolve host|temporary failure in name resolution|network is unreachable"
        r"|dial tcp: lookup \S{1,200}: |no route to host", re.M | re.I)),
    ("rate limited", ("429", "rate limit", "data limit"), re.compile(
        r"\b429 too many requests|api rate limit exceeded|data limit exceeded|http error 429"
        r"|429 client error", re.M | re.I)),
    ("service failed", ("502", "503", "504"), re.compile(
        r"\b(?:502 bad gateway|503 service unavailable|504 gateway time-?out)\b"
        r"|response code (?:502|503|504)|\b(?:502|503|504) server error", re.M | re.I)),
    ("hook failed", ("hook",), re.compile(r"\w{1,30} \w{1,30} hook exited with status", re.M | re.I)),
)  # fmt: skip

BATCH_LINES = 4_000


def parse(lines: Sequence[str]) -> tuple[InfraMark, ...]:
    """Return the first line of each name of the closed list, in the list's order."""
    found: dict[str, InfraMark] = {}
    for start in range(0, len(lines), BATCH_LINES):
        batch = lines[start : start + BATCH_LINES]
        text = "\n".join(line[:1_000] for line in batch).lower()
        for name, words, pattern in PATTERNS:
            if name in found or not any(word in text for word in words):
                continue
            match = pattern.search(text)
            if match:
                found[name] = InfraMark(name, cut(batch[text.count("\n", 0, match.start())], 300))
    return tuple(found[name] for name, *_ in PATTERNS if name in found)


def commands_began(lines: Sequence[str]) -> bool:
    """Say whether the job came as far as its own commands (Buildkite: `Running commands`; Actions: a Run)."""
    seen_checkout = False
    for line in lines:
        if line.startswith(("~~~ Running commands", "~~~ Running script")):
            return True
        if line.startswith("##[group]Run "):
            if not line.startswith("##[group]Run actions/checkout"):
                return True
            seen_checkout = True
    return not seen_checkout and not any(line.startswith("~~~ Preparing working directory") for line in lines)
