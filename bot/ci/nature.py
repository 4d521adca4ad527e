"""What sort of failure a message speaks of; some sorts need more proof than others."""

import re
from typing import Literal

from bot.ci.failures import Failure

Nature = Literal["plain", "timeout", "memory", "device", "network", "dependency", "perf"]

MEMORY = re.compile(
    r"out of memory|free memory on device|cannot allocate memory|memoryerror|bad_alloc|\boom\b|oomkilled"
    r"|no available memory for the cache blocks|failed to allocate \d",
    re.I,
)
DEVICE = re.compile(
    r"illegal memory access|memory access fault|hsa_status|\bxid\b|uncorrectable ecc|device-side assert"
    r"|gpu hang"
    r"|unspecified launch failure|\bhip error|hiperror\w{1,40}|cudaerror\w{1,40}|cuda error"
    r"|nccl\w{0,20} error|cublas_status|cudnn_status"
    r"|ethernet core|aicore|acl(?:rt)? ?error|no cuda.capable device|device (?:lost|unavailable|hang)"
    r"|fabric manager",
    re.I,
)
NETWORK = re.compile(
    r"connection ?(?:refused|reset|aborted|error|closed|timed out)|max retries exceeded|name resolution"
    r"|connecttimeout|readtimeout|read timed out|sslerror|remote end closed|remotedisconnected|bad gateway"
    r"|service unavailable|gateway time-?out|huggingface\.co|hf_hub|couldn't connect to|could not resolve"
    r"|http(?:s)?(?:error|statuserror)?:? ?(?:error )?(?:429|5\d\d)\b|incompleteread|protocolerror",
    re.I,
)
TIMEOUT = re.compile(r"timed? ?-?out|timeout|deadline exceeded|did not finish within|hung for|watchdog", re.I)
DEPENDENCY = re.compile(
    r"no module named|cannot import name|modulenotfounderror|no matching distribution"
    r"|could not find a version"
    r"|importlib\.metadata|packagenotfounderror|undefined symbol|cannot open shared object"
    r"|distributionnotfound"
    r"|versionconflict|cannot find module|err_module_not_found|eresolve|unsupported engine|glibc(?:xx)?_",
    re.I,
)
PERF = re.compile(
    r"regression|throughput|latency|slower|\bqps\b|tokens/s|below (?:the )?(?:baseline|threshold)"
    r"|exceeds? (?:the )?(?:baseline|threshold)|performance",
    re.I,
)
PERF_PLACE = re.compile(
    r"(?:^|[/_\s-])(?:perf|benchmarks?|performance|latency|throughput)(?:[/_\s.-]|$)", re.I
)


def nature_of(failure: Failure, job_name: str = "") -> Nature:
    """Return the sort of a failure."""
    text = f"{failure.exception or ''} {failure.message} {failure.detail}"[:2_000]
    if failure.category == "timeout":
        return "timeout"
    for nature, pattern in ordered():
        if pattern.search(text):
            return nature
    place = f"{failure.test or ''} {job_name}"
    if PERF.search(text) and PERF_PLACE.search(place[:600]):
        return "perf"
    return "plain"


def ordered() -> tuple[tuple[Nature, re.Pattern[str]], ...]:
    """Return the sorts in the order in which they are recognised."""
    return (
        ("memory", MEMORY),
        ("device", DEVICE),
        ("network", NETWORK),
        ("timeout", TIMEOUT),
        ("dependency", DEPENDENCY),
    )
