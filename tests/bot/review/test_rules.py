"""Each rule of the review finds what it is for, and leaves the good version alone."""

import pytest

from bot.review import Finding, Review, ReviewRequest, review

MODEL = "omni_lite/diffusion/models/qwen_image/transformer.py"
OPERATOR = "omni_lite/diffusion/layers/fused_norm.py"


def new_file(path: str, source: str) -> str:
    lines = source.strip("\n").split("\n")
    body = "\n".join(f"+{line}" for line in lines)
    head = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
    return f"{head}@@ -0,0 +1,{len(lines)} @@\n{body}\n"


def findings(source: str, path: str = MODEL, more: str = "") -> tuple[Finding, ...]:
    return review(ReviewRequest(diff=new_file(path, source) + more)).findings


def rules(source: str, path: str = MODEL, more: str = "") -> set[str]:
    return {finding.rule for finding in findings(source, path, more)}


SYNC = """
class Attention(nn.Module):
    def forward(self, x, cu_seqlens):
        longest = {read}
        return attend(x, cu_seqlens, longest)
"""


@pytest.mark.parametrize(
    "read", ["cu_seqlens[-1].item()", "int(cu_seqlens[-1])", "int(x.max())", "x.cpu()", "x.tolist()"]
)
def test_a_copy_to_the_host_in_a_layer_is_found(read: str) -> None:
    (finding,) = findings(SYNC.format(read=read))
    assert finding.rule == "device-sync-in-hot-path"
    assert finding.line == 3
    assert "once per layer or step" in finding.says


@pytest.mark.parametrize("read", ["layout.max_seqlen", "max(lengths)", "x.shape.tolist()", "int(self.size)"])
def test_host_values_are_no_copies(read: str) -> None:
    assert rules(SYNC.format(read=read)) == set()


def test_a_copy_outside_the_hot_path_or_in_a_test_is_nobodys_business() -> None:
    source = "def postprocess(x):\n    return x.cpu()\n"
    assert rules(source) == set()
    assert rules(SYNC.format(read="x.cpu()"), "tests/test_attention.py") == set()


LOOP = """
def diffuse(self, latents, timesteps, text, ids):
    {before}
    for step, t in enumerate(timesteps):
        {inside}
        latents = self.transformer(latents, t, condition, tables)
    return latents
"""


@pytest.mark.parametrize(
    "inside", ["condition = self.condition_proj(text)", "tables = self.build_rope_tables(ids)"]
)
def test_an_invariant_in_the_denoise_loop_is_found(inside: str) -> None:
    assert "request-invariant-rebuilt" in rules(LOOP.format(before="pass", inside=inside))


def test_hoisted_or_changing_work_is_fine() -> None:
    hoisted = LOOP.format(before="condition = self.condition_proj(text)", inside="pass")
    changing = LOOP.format(before="pass", inside="tables = self.build_rope_tables(t)")
    assert rules(hoisted) == set()
    assert rules(changing) == set()


def test_a_rotary_table_made_in_every_layer_is_found() -> None:
    source = """
class QwenAttention(nn.Module):
    def forward(self, x):
        freqs = torch.outer(torch.arange(self.max_position), self.inv_freq)
        return self.rotate(x, freqs)
"""
    assert "request-invariant-rebuilt" in rules(source)


FUSED = """
class QwenAttention(nn.Module):
    def forward(self, q, k, table):
        {body}
"""


def test_a_fused_call_without_a_guard_is_found() -> None:
    source = FUSED.format(body="return fused_qk_norm_rope(q, k, self.weight, table)")
    assert "fused-path-without-guard" in rules(source)


@pytest.mark.parametrize(
    "body",
    [
        "if len(q) >= self.least:\n            return fused_qk_norm_rope(q, k)\n        return eager(q, k)",
        "if not q.is_cuda:\n            return eager(q, k)\n        return fused_qk_norm_rope(q, k)",
        "return fused_qk_norm_rope(q, k) if self.use_fused else eager(q, k)",
    ],
)
def test_a_guarded_fused_call_is_fine(body: str) -> None:
    assert rules(FUSED.format(body=body)) == set()


NEW_FUSED = (
    "def fused_swiglu(gate, up):\n    if not gate.is_cuda:\n        return eager(gate, up)\n    return gate\n"
)


def test_a_new_fused_function_without_a_parity_test_is_found() -> None:
    assert "fused-path-without-parity-test" in rules(NEW_FUSED, OPERATOR)


def test_with_its_parity_test_it_is_fine() -> None:
    test = new_file("tests/layers/test_swiglu.py", "def test_parity():\n    compare(fused_swiglu, eager)\n")
    assert rules(NEW_FUSED, OPERATOR, test) == set()


KERNEL = """
@triton.jit
def norm_kernel(x_ptr, n, BLOCK: tl.constexpr):
    pass


def launch(x):
    {check}
    norm_kernel[(x.shape[0],)](x, x.shape[1], BLOCK=128)
    return x
"""


def test_an_unchecked_launch_is_found() -> None:
    assert rules(KERNEL.format(check="x = x.contiguous()"), OPERATOR) == {"triton-kernel-without-checks"}


@pytest.mark.parametrize(
    "check",
    ["if x.dtype != torch.bfloat16:\n        raise ValueError('x')", "assert x.shape[-1] == 128"],
)
def test_a_checked_launch_is_fine(check: str) -> None:
    assert rules(KERNEL.format(check=check), OPERATOR) == set()


def test_a_mask_that_nobody_reads_is_found() -> None:
    source = "def pack(x, n):\n    attn_mask = torch.ones(n, n)\n    return attend(x)\n"
    assert rules(source) == {"mask-built-and-unused"}


def test_a_mask_in_use_is_fine() -> None:
    assert (
        rules("def pack(x, n):\n    attn_mask = torch.ones(n, n)\n    return attend(x, attn_mask)\n") == set()
    )


CACHE = """
class Rope:
    def table(self, length, device, dtype):
        key = {key}
        if key not in self.cache:
            {bound}
            self.cache[key] = torch.arange(length, device=device).to(dtype)
        return self.cache[key]
"""


def test_an_unbounded_cache_and_an_incomplete_key_are_found() -> None:
    found = rules(CACHE.format(key="(length,)", bound="pass"))
    assert found == {"unbounded-cache", "incomplete-cache-key"}


def test_a_bounded_cache_with_a_whole_key_is_fine() -> None:
    source = CACHE.format(key="(length, device, dtype)", bound="self.cache.popitem()")
    assert rules(source) == set()


def test_lru_cache_without_a_bound_over_tensors_is_found() -> None:
    table = "def table(length, device):\n    return torch.zeros(length, device=device)\n"
    source = f"@functools.lru_cache(maxsize=None)\n{table}"
    assert rules(source) == {"unbounded-cache"}
    assert rules(source.replace("None", "8")) == set()


ROUNDING = """
def fused_residual_norm(x, residual, weight):
    hidden = x.float() + residual.float()
    {store}
    variance = hidden.pow(2).mean(-1, keepdim=True)
    return hidden * torch.rsqrt(torch.mean(hidden * hidden)), stored
"""


def test_a_lost_rounding_boundary_is_found() -> None:
    assert "rounding-boundary-lost" in rules(ROUNDING.format(store="stored = hidden.to(x.dtype)"), OPERATOR)


def test_a_kept_rounding_boundary_is_fine() -> None:
    kept = "stored = hidden.to(x.dtype)\n    hidden = hidden.to(x.dtype).float()"
    assert "rounding-boundary-lost" not in rules(ROUNDING.format(store=kept), OPERATOR)


def test_a_collective_without_a_test_is_found() -> None:
    source = "def scatter(x, group):\n    dist.all_to_all_single(x, x, group=group)\n    return x\n"
    assert rules(source) == {"collective-without-test"}
    test = new_file("tests/distributed/test_scatter.py", "def test_scatter():\n    pass\n")
    assert rules(source, more=test) == set()


def body_rules(body: str, title: str = "[Perf] Faster attention") -> set[str]:
    return {finding.rule for finding in review(ReviewRequest(title=title, body=body)).findings}


def test_a_claim_without_any_figure_is_found() -> None:
    assert body_rules("This makes attention much faster.") == {"claim-without-figure"}


def test_a_bare_percentage_lacks_everything() -> None:
    assert body_rules("Latency improves by 12 %.") >= {
        "claim-without-hardware",
        "claim-without-baseline",
        "claim-without-samples",
        "no-raw-runs",
    }


def test_a_kernel_win_alone_is_no_speed_up() -> None:
    assert "kernel-win-without-end-to-end" in body_rules(
        "The kernel is 3.1x faster (41 us instead of 127 us)."
    )


def test_a_percentage_that_the_table_does_not_give_is_found() -> None:
    head = "| build | latency_mean (s) | vs parent |\n|---|---|---|\n"
    table = f"{head}| parent | 2.0 | |\n| this | 1.9 | -9.0 % |\n"
    assert "percentage-does-not-follow" in body_rules(table)
    assert "percentage-does-not-follow" not in body_rules(table.replace("-9.0 %", "-5.0 %"))


COMPLETE = """
End-to-end latency of `512x512_steps20` on one NVIDIA H200 (hardware: H200, bf16, FLASH_ATTN), against the
parent on the same host, n=300 after 5 warm-up requests, sd 0.4 %.

| build | latency_median (s) | vs parent |
|---|---|---|
| parent | 2.000 | |
| this | 1.900 | -5.0 % |

Raw runs, parent: 2.001, 1.999, 2.000; this: 1.901, 1.899, 1.900.
"""


def test_a_complete_claim_is_left_alone_and_confirmed() -> None:
    found: Review = review(ReviewRequest(title="[Perf] Faster attention", body=COMPLETE))
    assert found.findings == ()
    (claim,) = found.claims
    assert claim.confirmed
    assert claim.complete
    assert claim.value_pct == 5.0
    assert claim.hardware == "H200"


def test_a_description_without_a_claim_is_left_alone() -> None:
    assert body_rules("Fix a typo in the readme.", "Fix a typo") == set()


LAYER_LOOP = """
class Transformer(nn.Module):
    def forward(self, hidden, ids, layout):
        for block in self.blocks:
            {inside}
            hidden = block(hidden, tables)
        return hidden
"""


@pytest.mark.parametrize(
    "inside",
    ["tables = self.rope_tables(ids)", "tables = build_metadata(layout, device=hidden.device)"],
)
def test_an_invariant_rebuilt_for_every_layer_is_found(inside: str) -> None:
    (finding,) = findings(LAYER_LOOP.format(inside=inside))
    assert (finding.rule, finding.line) == ("request-invariant-rebuilt", 4)
    assert "in every layer" in finding.says


@pytest.mark.parametrize(
    "inside", ["tables = self.rope_tables(hidden)", "tables = block.rope_tables(ids)", "tables = None"]
)
def test_what_changes_from_layer_to_layer_may_be_built_there(inside: str) -> None:
    assert rules(LAYER_LOOP.format(inside=inside)) == set()


def test_a_table_that_differs_by_layer_is_fine() -> None:
    source = """
class Attention(nn.Module):
    def forward(self, x, cache):
        length, offset = cache.sizes(self.layer_idx)
        positions = torch.arange(length, device=x.device) + offset
        return self.attend(x, positions)
"""
    assert rules(source) == set()


def test_a_copy_that_feeds_the_loop_is_made_once() -> None:
    source = (
        "class Model(nn.Module):\n    def forward(self, x, layers):\n"
        "        for each in layers.tolist():\n            x = x + each\n        return x\n"
    )
    (finding,) = findings(source)
    assert "in every forward" in finding.says


def test_a_mask_that_only_makes_itself_is_unused() -> None:
    source = "def pack(x, n):\n    mask = torch.ones(n, n)\n    mask = mask.tril()\n    return attend(x)\n"
    (finding,) = findings(source)
    assert (finding.rule, finding.line) == ("mask-built-and-unused", 2)
    assert rules(source.replace("attend(x)", "attend(x, mask)")) == set()


MEMO = """
TABLES: dict = {}


def table(size, device, dtype):
    key = (size, device, dtype)
    if key not in TABLES:
        TABLES[key] = torch.zeros(size, device=device, dtype=dtype)
    return TABLES[key]
"""


def test_a_memo_by_another_name_is_a_cache() -> None:
    assert rules(MEMO) == {"unbounded-cache"}
    assert (
        rules(MEMO.replace("    return", "    while len(TABLES) > 8:\n        drop(TABLES)\n    return"))
        == set()
    )
    assert rules(MEMO.replace("    key =", "    TABLES = {}\n    key =")) == set()
    assert rules(MEMO.replace("torch.zeros(size, device=device, dtype=dtype)", "Layer()")) == set()


HEAD = "diff --git a/{0} b/{0}\n--- a/{0}\n+++ b/{0}\n"


def edit(path: str, before: str, after: str) -> str:
    old, new = before.strip("\n").split("\n"), after.strip("\n").split("\n")
    lines = [f"-{line}" for line in old] + [f"+{line}" for line in new]
    return f"{HEAD.format(path)}@@ -1,{len(old)} +1,{len(new)} @@\n" + "\n".join(lines) + "\n"


def test_a_cache_decorator_put_on_old_code_is_found() -> None:
    body = " def table(size, device):\n     return torch.zeros(size, device=device)\n"
    diff = f"{HEAD.format(MODEL)}@@ -1,2 +1,3 @@\n+@functools.cache\n{body}"
    (finding,) = review(ReviewRequest(diff=diff)).findings
    assert (finding.rule, finding.line) == ("unbounded-cache", 1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('layer = Attention(qkv_layout="BSND")', 'layer = Attention(qkv_layout="BNSD")'),
        ("x = SequenceParallelInput(split_dim=1)", "x = SequenceParallelInput(split_dim=2)"),
    ],
)
def test_a_changed_layout_or_plan_needs_a_parallel_test(before: str, after: str) -> None:
    diff = edit(MODEL, before, after)
    other = new_file("tests/test_config.py", "def test_config():\n    assert config()\n")
    parallel = new_file("tests/test_ranks.py", "def test_ranks():\n    mp.spawn(run, nprocs=2)\n")
    assert {found.rule for found in review(ReviewRequest(diff=diff + other)).findings} == {
        "collective-without-test"
    }
    assert review(ReviewRequest(diff=diff + parallel)).findings == ()
    assert review(ReviewRequest(diff=edit(MODEL, before, f"{before}  # kept"))).findings == ()


SIDE_BY_SIDE = """
Measured on one NVIDIA H200, bf16, base is main, 5 runs. Raw runs: 4.00, 4.01, 4.02.

| metric | before | after | change |
|---|---|---|---|
| e2e latency | **4.0 s** | **3.6 s** | {latency} |
| throughput | 0.250 ± 0.001 | 0.278 ± 0.001 | +11.2% |
"""


def test_before_and_after_side_by_side_are_compared() -> None:
    assert body_rules(SIDE_BY_SIDE.format(latency="-10%")) == set()
    assert body_rules(SIDE_BY_SIDE.format(latency="-14%")) == {"percentage-does-not-follow"}


ONE_ABOVE_THE_OTHER = """
Measured on one NVIDIA H200, bf16, base is main, 5 runs. Raw runs: 4.00, 4.01, 4.02.

| build | latency (s) |
|---|---|
| main | 4.0 |
| this | 3.6 |

End-to-end latency {says}. Memory drops by 30%.
"""


@pytest.mark.parametrize(
    "says", ["drops by 10%", "improves by 10.0 %", "is 400 ms lower", "stays in 95% of cases"]
)
def test_a_sentence_that_agrees_with_the_table_is_fine(says: str) -> None:
    assert body_rules(ONE_ABOVE_THE_OTHER.format(says=says)) == set()


def test_a_sentence_that_the_table_contradicts_is_found() -> None:
    assert body_rules(ONE_ABOVE_THE_OTHER.format(says="improves by 18%")) == {"percentage-does-not-follow"}


def test_a_figure_in_the_title_is_a_claim() -> None:
    found = body_rules("See the code.", "[Perf] 2.3x faster denoising")
    assert {"claim-without-hardware", "claim-without-baseline", "claim-without-samples"} <= found


@pytest.mark.parametrize("runs", ["five runs", "5 measured runs", "n=5", "200 launches"])
def test_samples_are_read_as_people_write_them(runs: str) -> None:
    assert "claim-without-samples" not in body_rules(f"Latency falls by 5 % ({runs} after one warm-up).")


def test_a_tail_is_judged_by_requests_not_by_repetitions() -> None:
    assert "tail-latency-from-few-samples" not in body_rules("p99 latency 2.1 s; n=2000 requests, 3 runs")
    assert "tail-latency-from-few-samples" in body_rules("p99 latency 2.1 s; n=20 requests, 3 runs")


@pytest.mark.parametrize("gpu", ["L40S", "T4", "H20", "MI300X", "RTX 5090", "910B3", "GB200"])
def test_accelerators_are_known_by_name(gpu: str) -> None:
    assert "claim-without-hardware" not in body_rules(f"Latency falls by 5 % on one {gpu}.")


IN_FORWARD = "class Decoder(nn.Module):\n    def forward(self, x, mask):\n        {line}\n        return x\n"


@pytest.mark.parametrize(
    "line", ["y = x.to('cpu')", "y = x.to(device='cpu')", "if mask is not None and not mask.any(): x = x + 1"]
)
def test_hidden_copies_to_the_host_are_found_too(line: str) -> None:
    (finding,) = findings(IN_FORWARD.format(line=line))
    assert (finding.rule, finding.severity) == ("device-sync-in-hot-path", "medium")


@pytest.mark.parametrize(
    "line", ["y = x.to(self.device)", "if mask is not None: x = x + 1", "if all(self.on): x = x + 1"]
)
def test_branches_on_host_values_are_fine(line: str) -> None:
    assert rules(IN_FORWARD.format(line=line)) == set()


def test_a_helper_is_as_hot_as_the_forward_that_calls_it() -> None:
    helper = "class Pack(nn.Module):\n    def _cut(self, x, ends):\n        return x[: ends.max().item()]\n"
    assert rules(helper) == set()
    assert rules(f"{helper}    def forward(self, x, ends):\n        return self._cut(x, ends)\n") == {
        "device-sync-in-hot-path"
    }


def test_a_while_loop_over_the_steps_is_a_denoise_loop() -> None:
    source = (
        "def run(self, x, timesteps, ids):\n    i = 0\n"
        "    while i < len(timesteps):\n        {0}\n        i += 1\n"
    )
    assert rules(source.format("rope = self.rope_tables(ids)")) == {"request-invariant-rebuilt"}
    assert rules(source.format("rope = self.rope_tables(i)")) == set()


def test_an_imported_kernel_is_a_kernel() -> None:
    assert rules("def run(x):\n    norm_kernel[(1,)](x)\n    return x\n") == {"triton-kernel-without-checks"}
    assert rules("def run(x):\n    self.handlers[0](x)\n    return x\n") == set()


def test_a_cache_filled_by_setdefault_is_a_cache() -> None:
    source = (
        "TABLES = {}\ndef table(size, device, dtype):\n"
        "    return TABLES.setdefault((size, device, dtype), torch.zeros(size, device=device, dtype=dtype))\n"
    )
    assert rules(source) == {"unbounded-cache"}
    assert rules(source.replace("TABLES = {}", "TABLES = LRUCache(maxsize=8)")) == set()


def test_a_sum_in_place_keeps_its_boundary_only_if_rounded_afterwards() -> None:
    source = (
        "def add_norm(x, residual, eps):\n    x = x.to(torch.float32)\n    x += residual.float()\n"
        "    stored = x.to(residual.dtype)\n{0}"
        "    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps), stored\n"
    )
    (finding,) = findings(source.format(""))
    assert (finding.rule, finding.line) == ("rounding-boundary-lost", 3)
    assert rules(source.format("    x = x.to(residual.dtype).float()\n")) == set()
