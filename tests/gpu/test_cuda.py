"""What only a device can show: the Triton kernels as CUDA's kernels of the operator, compiled, and the program's models
there. Skipped without one; scripts/gpu_report runs it in several processes at a time. The same numbers through the
interpreter: tests/op/test_triton.py."""

import json
import sys
from pathlib import Path

import pytest
import ssa_attention
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "op"))
from eager import Problem, check_error, eager_attention, family_of, in_type

# A mark, since pytest counts a file that is skipped as a whole as one without tests and fails.
pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="torch sees no CUDA device: nothing here has been measured on one"
)

SCORES = [name for name in ssa_attention.scores() if family_of(name) == "phi"]


def on_device(query, key, value, *, score, params, **options):
    """The operator on the device, called with tensors of the CPU as eager_attention is."""
    moved = {name: each.cuda() if isinstance(each, torch.Tensor) else each for name, each in options.items()}
    out, lse = ssa_attention.attention(
        query.cuda(), key.cuda(), value.cuda(), score=score, params=[p.cuda() for p in params], kernel="fused",
        return_lse=True, **moved,
    )  # fmt: skip
    assert ssa_attention.last_attention_path() == "triton"
    return out.cpu(), lse.cpu()


def check(problems, dtype, times=3, **options):
    for problem in problems:
        for name in ("query", "key", "value", "d_out"):
            setattr(problem, name, getattr(problem, name).to(dtype).double())
        truth = problem.run(torch.float64, eager_attention, **options)
        narrow = (lambda f: f) if dtype == torch.float32 else (lambda f: in_type(dtype, f))
        eager = problem.run(torch.float32, narrow(eager_attention), **options)
        ours = problem.run(torch.float32, narrow(on_device), **options)
        for name in truth:
            result = ours[name].to(dtype) if name in ("out", "dq", "dk", "dv") else ours[name]
            check_error(name, result, eager[name], truth[name], times, 16.0)  # the device's own log2 and exp2


# Few enough: compiling four kernels for each takes longer than all else.
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "rows, dim", [(1, 64), (17, 64), (64, 64), (130, 64), (515, 64), (130, 32), (130, 128), (130, 256)]
)
def test_against_the_oracle(dtype, rows, dim):
    check([Problem(rows + dim, heads=2, rows=rows, dim=dim)], dtype, causal=True)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_score_with_every_feature(score, dtype):
    generator = torch.Generator().manual_seed(3)
    check(
        [Problem(5, batch=2, heads=4, kv_heads=2, rows=150, columns=200, dim=40, v_dim=72, score=score)], dtype,
        mask=torch.rand(4, 150, 200, generator=generator) < 0.8,
        bias=torch.randn(2, 1, 1, 200, generator=generator).double(), key_lengths=torch.tensor([100, 200]), causal=True,
        window=90, alibi_slopes=torch.tensor([0.1, 0.05, 0.02, -0.01]), scale=0.7,
    )  # fmt: skip


def inputs(*shape, dtype=torch.bfloat16):
    return [torch.randn(shape, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3)]


def test_the_same_input_gives_the_same_bits():
    tensors = inputs(2, 8, 1000, 64)
    n = torch.full((8,), 1.5, device="cuda", requires_grad=True)

    def run():
        out = ssa_attention.attention(*tensors, n=n, causal=True, kernel="fused")
        return [out, *torch.autograd.grad(out.float().square().sum(), [*tensors, n])]

    assert all(torch.equal(a, b) for a, b in zip(run(), run(), strict=True))


def test_dropout_takes_the_weights_that_the_cpu_takes():
    query, key = torch.zeros(2, 3, 70, 16), torch.zeros(2, 3, 150, 16)
    value = torch.eye(150).expand(2, 3, -1, -1)
    cpu = ssa_attention.attention(query, key, value, dropout=0.4, seed=5)
    cuda = ssa_attention.attention(query.cuda(), key.cuda(), value.cuda(), dropout=0.4, seed=5, kernel="fused")
    assert torch.equal(cpu == 0, cuda.cpu() == 0)


@pytest.mark.parametrize("kernel", ["fused", "composed"])
def test_nothing_waits_for_the_device(kernel):
    tensors = inputs(1, 2, 130, 64)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(2):
            ssa_attention.attention(*tensors, causal=True, dropout=0.1, kernel=kernel).float().sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_in_a_cuda_graph():
    tensors = [t.detach() for t in inputs(1, 2, 130, 64)]
    run = lambda: ssa_attention.attention(*tensors, causal=True, kernel="fused")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run()
    tensors[0].normal_()
    graph.replay()
    assert torch.equal(out, run())


def test_under_torch_compile():
    module = ssa_attention.nn.SelfAttention(64, 4, causal=True, dropout=0.1).cuda()
    x = torch.randn(2, 100, 64, device="cuda", requires_grad=True)
    module.eval()
    compiled = torch.compile(module, fullgraph=True)
    torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-4)
    module.train()
    compiled(x).sum().backward()


def test_packed_sequences():
    lengths = torch.tensor([0, 5, 5, 75, 130], device="cuda")
    tensors = inputs(1, 2, 130, 64, dtype=torch.float32)
    packed = ssa_attention.attention(*tensors, causal=True, cu_query=lengths, cu_key=lengths, kernel="fused")
    for first, last in zip(lengths[:-1].tolist(), lengths[1:].tolist(), strict=True):
        if first == last:
            continue
        own = ssa_attention.attention(*(t[:, :, first:last] for t in tensors), causal=True, kernel="fused")
        torch.testing.assert_close(packed[:, :, first:last], own)


def losses(ssa, run):
    lines = [json.loads(line) for line in (ssa.folder / run / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


@pytest.mark.parametrize("precision, rel", [("float32", 1e-3), ("bfloat16", 3e-2)])
def test_the_program_trains_as_on_the_cpu_and_goes_on_there(ssa, tiny, precision, rel):
    flags = ["--dropout", 0.1, "--precision", precision, "--quiet"]
    ssa("train", tiny, "--out", "cpu", *flags)
    ssa("train", tiny, "--out", "cuda", "--device", "cuda", "--stop-at", 3, *flags)
    assert "on cuda:0" in (ssa.folder / "cuda/log.txt").read_text()
    ssa("train", "--out", "cuda", "--resume", "--device", "cpu", "--quiet")
    assert losses(ssa, "cuda") == pytest.approx(losses(ssa, "cpu"), rel=rel)
    ssa("eval", "cuda", "--device", "cuda", "--sequences", 20)


def test_the_program_generates_what_it_generates_on_the_cpu(language):
    ssa = language([f"{i} the dog the cat " * 8 for i in range(40)])
    ssa("train", "config.toml", "--out", "run", "--device", "cuda", "--quiet")
    text = ["generate", "run", "--prompt", "the", "--temperature", 0, "--tokens", 10]
    assert ssa(*text, "--device", "cuda").stdout == ssa(*text).stdout
