"""The DiT: its paths agree, its two ways to advance requests agree, and both clean up after themselves."""

import os
import zipfile
from pathlib import Path

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton and the kernels' modules are first imported
    import prgate_kernels.triton_adaln
    import prgate_kernels.triton_qk_norm_rope  # noqa: F401

    del os.environ["TRITON_INTERPRET"]

from perf_runner.targets.qwen_image_dit import peer
from perf_runner.targets.qwen_image_dit.config import SMALL, Workload
from perf_runner.targets.qwen_image_dit.denoise import (
    Request,
    StepScheduler,
    euler,
    guide,
    new_request,
    run_whole,
    schedule,
)
from perf_runner.targets.qwen_image_dit.model import build_model, count_parameters
from perf_runner.targets.qwen_image_dit.paths import (
    COMPILED_GRAPH,
    DIFFUSERS,
    EAGER,
    FUSED,
    GATED,
    QK_OP,
    UPSTREAM,
    Paths,
    PathUnavailableError,
)
from prgate_kernels import path_log

CPU = torch.device("cpu")
WORK = Workload(width=96, height=64, steps=3, text_tokens=5, dtype="float32")


@pytest.fixture(scope="module")
def paths() -> Paths:
    return Paths(build_model(SMALL, 0, CPU, torch.float32), SMALL)


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the kernels in Triton's interpreter; without it this CPU takes the eager forms."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    path_log.reset()


def error(value: torch.Tensor, reference: torch.Tensor) -> float:
    return float((value.double() - reference.double()).norm() / reference.double().norm())


def whole(paths: Paths, name: str, number: int = 0, work: Workload = WORK) -> Request:
    return run_whole(paths.use(name, work.image_shape), new_request(SMALL, work, CPU, number))


def test_every_path_gives_the_latents_of_diffusers_bit_by_bit_without_kernels(paths: Paths) -> None:
    wanted = whole(paths, DIFFUSERS).latents
    for name in (EAGER, GATED, QK_OP, FUSED):
        assert torch.equal(whole(paths, name).latents, wanted), name
    assert "qk_norm_rope.joint.eager:device" in path_log.snapshot()


@pytest.mark.usefixtures("interpreted")
def test_every_path_gives_the_latents_of_diffusers_with_kernels(paths: Paths) -> None:
    wanted = whole(paths, DIFFUSERS).latents
    for name in (EAGER, GATED, QK_OP, FUSED):
        assert error(whole(paths, name).latents, wanted) < 1e-5, name


@pytest.mark.usefixtures("interpreted")
def test_each_step_of_the_trajectory_and_each_block_agree(paths: Paths) -> None:
    """Block level: the fused forward of a model of one block; trajectory: the latents after every step."""
    one = SMALL.model_copy(update={"num_layers": 1})
    single = Paths(build_model(one, 3, CPU, torch.float32), one)
    request = new_request(one, WORK, CPU)
    outputs = [
        single.use(name, WORK.image_shape)(request.latents, request.positive, (0.7,)).clone()
        for name in (DIFFUSERS, FUSED)
    ]
    assert error(outputs[1], outputs[0]) < 1e-5
    followed: dict[str, list[torch.Tensor]] = {}
    for name in (DIFFUSERS, FUSED):
        run, followed[name] = new_request(SMALL, WORK, CPU), []
        scheduler = StepScheduler(paths.use(name, WORK.image_shape))
        scheduler.add(run)
        while scheduler.waiting:
            done = scheduler.tick()
            followed[name].append((done or scheduler.waiting)[0].latents)
    assert len(followed[FUSED]) == WORK.steps
    for got, wanted in zip(followed[FUSED], followed[DIFFUSERS], strict=True):
        assert error(got, wanted) < 1e-5


@pytest.mark.usefixtures("interpreted")
def test_bf16_stays_within_the_noise_of_its_roundings() -> None:
    work = WORK.model_copy(update={"dtype": "bfloat16"})
    small = Paths(build_model(SMALL, 0, CPU, torch.bfloat16), SMALL)
    assert error(whole(small, FUSED, work=work).latents, whole(small, DIFFUSERS, work=work).latents) < 2e-2


@pytest.mark.usefixtures("interpreted")
def test_the_path_log_proves_what_ran(paths: Paths) -> None:
    path_log.reset()
    whole(paths, QK_OP)
    forwards = 2 * WORK.steps
    assert path_log.snapshot() == {"qk_norm_rope.joint.fused": forwards * SMALL.num_layers}
    path_log.reset()
    whole(paths, FUSED)
    counts = path_log.snapshot()
    assert counts["qk_norm_rope.joint.fused"] == forwards * SMALL.num_layers
    assert counts["gated_residual_norm.fused"] == forwards * SMALL.num_layers * 2
    assert counts["adaln.fused"] == forwards


@pytest.mark.parametrize(("min_tokens", "path"), [("29", "qk_norm_rope.fused"), ("30", "qk_norm_rope.eager")])
@pytest.mark.usefixtures("interpreted")
def test_the_gate_resolves_its_threshold_in_the_forward(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, min_tokens: str, path: str
) -> None:
    assert WORK.tokens == 29
    monkeypatch.setenv("PRGATE_FUSED_QK_NORM_ROPE_MIN_TOKENS", min_tokens)
    path_log.reset()
    whole(paths, GATED)
    assert path in path_log.snapshot()
    assert len([name for name in path_log.snapshot() if name.startswith("qk_norm_rope")]) <= 2


def test_both_cfg_branches_and_the_next_request_share_the_modulations(paths: Paths) -> None:
    paths.forget_schedule()
    path_log.reset()
    whole(paths, FUSED)
    whole(paths, FUSED, number=1)
    counts = path_log.snapshot()
    assert counts["modulation.computed"] == WORK.steps
    assert counts["modulation.cached"] == 3 * WORK.steps


@pytest.mark.parametrize("concurrency", [1, 2, 4, 8])
def test_step_execution_gives_the_latents_of_the_whole_loop(paths: Paths, concurrency: int) -> None:
    scheduler = StepScheduler(paths.use(FUSED, WORK.image_shape), max_batch=concurrency)
    for number in range(concurrency):
        scheduler.add(new_request(SMALL, WORK, CPU, number))
    done: dict[int, Request] = {}
    ticks = 0
    while scheduler.waiting:
        done |= {request.number: request for request in scheduler.tick()}
        ticks += 1
    assert ticks == WORK.steps  # equal steps were one batch
    for number, request in done.items():
        assert error(request.latents, whole(paths, FUSED, number).latents) < 1e-5


def test_requests_at_different_steps_do_not_share_a_batch(paths: Paths) -> None:
    scheduler = StepScheduler(paths.use(FUSED, WORK.image_shape))
    scheduler.add(new_request(SMALL, WORK, CPU, 0))
    scheduler.tick()
    scheduler.add(new_request(SMALL, WORK, CPU, 1))
    assert [request.number for request in scheduler.next_batch()] == [0]
    turns = []
    while scheduler.waiting:
        turns.append([request.number for request in scheduler.next_batch()])
        scheduler.tick()
    assert turns == [[0], [1], [0], [1], [1]]  # by turns, each alone
    taller = WORK.model_copy(update={"height": 96})
    for work in (WORK, taller):
        scheduler.add(new_request(SMALL, work, CPU, work.height))
    assert [request.number for request in scheduler.next_batch()] == [WORK.height]


def test_latents_of_another_shape_than_the_path_was_opened_for_are_refused(paths: Paths) -> None:
    taller = new_request(SMALL, WORK.model_copy(update={"height": 96}), CPU)
    with pytest.raises(ValueError, match="latents must be"):
        run_whole(paths.use(FUSED, WORK.image_shape), taller)


def test_a_cancelled_request_leaves_nothing_behind(paths: Paths) -> None:
    scheduler = StepScheduler(paths.use(FUSED, WORK.image_shape))
    for number in range(3):
        scheduler.add(new_request(SMALL, WORK, CPU, number))
    scheduler.tick()
    assert scheduler.cancel(1)
    assert not scheduler.cancel(1)
    done = []
    while scheduler.waiting:
        done += scheduler.tick()
    assert sorted(request.number for request in done) == [0, 2]
    assert scheduler.tick() == []
    assert error(done[1].latents, whole(paths, FUSED, 2).latents) < 1e-5


def test_a_forward_that_fails_loses_no_request(paths: Paths) -> None:
    def broken(latents: torch.Tensor, text: torch.Tensor, sigmas: tuple[float, ...]) -> torch.Tensor:
        raise RuntimeError("out of memory")

    scheduler = StepScheduler(broken)
    scheduler.add(new_request(SMALL, WORK, CPU))
    with pytest.raises(RuntimeError, match="out of memory"):
        scheduler.tick()
    scheduler.forward = paths.use(FUSED, WORK.image_shape)
    done = []
    while scheduler.waiting:
        done += scheduler.tick()
    assert error(done[0].latents, whole(paths, FUSED).latents) < 1e-5


def test_the_sigmas_are_those_of_the_published_scheduler() -> None:
    """Against diffusers' own scheduler with Qwen-Image's configuration."""
    from diffusers import FlowMatchEulerDiscreteScheduler

    published = FlowMatchEulerDiscreteScheduler(
        base_image_seq_len=256, base_shift=0.5, max_image_seq_len=8192, max_shift=0.9,
        shift_terminal=0.02, time_shift_type="exponential", use_dynamic_shifting=True,
    )  # fmt: skip
    for tokens, steps in ((1024, 20), (4096, 8), (9216, 35)):
        mu = 0.5 + (0.9 - 0.5) / (8192 - 256) * (tokens - 256)
        plain = [1.0 - (1.0 - 1.0 / steps) * i / (steps - 1) for i in range(steps)]
        published.set_timesteps(sigmas=plain, mu=mu)
        assert schedule(tokens, steps) == pytest.approx(published.sigmas.tolist(), abs=1e-5)


def test_guidance_keeps_the_norm_of_the_positive_branch() -> None:
    positive, negative = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 1.0]])
    assert torch.allclose(guide(positive, negative, 1.0), positive)
    assert float(guide(positive, negative, 4.0).norm()) == pytest.approx(5.0)
    assert torch.equal(euler(torch.ones(2), torch.full((2,), 2.0), -0.25), torch.full((2,), 0.5))


def test_the_same_seed_is_the_same_request_and_another_number_another() -> None:
    first, again, other = (new_request(SMALL, WORK, CPU, number) for number in (0, 0, 1))
    assert torch.equal(first.latents, again.latents)
    assert not torch.equal(first.latents, other.latents)
    assert torch.equal(first.positive, other.positive)


def test_fused_projections_share_the_storage_of_the_separate_ones(paths: Paths) -> None:
    attention = paths.model.transformer_blocks[0].attn
    width = SMALL.width
    assert attention.to_k.weight.data_ptr() == attention.to_qkv.weight[width:].data_ptr()
    assert torch.equal(attention.to_added_qkv.weight[2 * width :], attention.add_v_proj.weight)
    distinct = count_parameters(paths.model)
    assert distinct < sum(parameter.numel() for parameter in paths.model.parameters())


def test_what_cannot_be_had_here_says_why(paths: Paths) -> None:
    with pytest.raises(PathUnavailableError, match="needs a CUDA device"):
        paths.use(COMPILED_GRAPH, WORK.image_shape)
    with pytest.raises(PathUnavailableError, match="needs a CUDA device"):
        paths.use(UPSTREAM, WORK.image_shape)
    with pytest.raises(PathUnavailableError, match="no such path"):
        paths.use("warp", WORK.image_shape)


def test_the_peer_is_found_in_its_wheel_and_absent_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(peer.VARIABLE, raising=False)
    assert peer.find_source() is None
    assert peer.load() is None
    wheel = tmp_path / "vllm_omni-9.9.9-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(peer.MEMBER, "from vllm.triton_utils import HAS_TRITON\nfused_qk_norm_rope = abs\n")
    monkeypatch.setenv(peer.VARIABLE, str(wheel))
    assert peer.find_version() == "9.9.9"
    assert peer.load() is abs
