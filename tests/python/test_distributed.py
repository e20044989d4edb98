"""The modules in other people's training: DistributedDataParallel, FSDP2 and activation checkpointing, on the CPU with
Gloo. Two processes on halves of a batch take the step of one process on all of it."""

import pytest
import ssa_attention
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)
WORLD = 2


class Model(nn.Module):
    def __init__(self, checkpointed=False):
        super().__init__()
        self.layers = nn.ModuleList(ssa_attention.nn.SelfAttention(16, 4, causal=True) for _ in range(2))
        self.checkpointed = checkpointed

    def forward(self, x):
        for layer in self.layers:
            x = x + (checkpoint(layer, x, use_reentrant=False) if self.checkpointed else layer(x))
        return x


def step(model, x):
    """Gradient descent on the mean square, and the parameters after it."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model(x).square().mean().backward()
    optimizer.step()
    whole = {}
    for name, parameter in model.named_parameters():
        value = parameter.full_tensor() if isinstance(parameter, DTensor) else parameter
        whole[name.removeprefix("module.")] = value.detach().clone()
    return whole


def seeded_model(**options):
    torch.manual_seed(0)
    return Model(**options)


def batch():
    return torch.randn(4, 10, 16, generator=torch.Generator().manual_seed(1))


def worker(rank, kind, path):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=WORLD)
    model = seeded_model(checkpointed=kind == "fsdp")
    if kind == "ddp":
        model = DistributedDataParallel(model)
    else:
        mesh = dist.init_device_mesh("cpu", (WORLD,))
        for layer in model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    after = step(model, batch().chunk(WORLD)[rank])
    if rank == 0:
        torch.save(after, f"{path}.pt")
    dist.destroy_process_group()


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_two_processes_take_the_step_of_one(kind, tmp_path):
    path = tmp_path / "store"
    torch.multiprocessing.spawn(worker, (kind, str(path)), nprocs=WORLD)
    wanted = step(seeded_model(), batch())
    found = torch.load(f"{path}.pt")
    before = dict(seeded_model().named_parameters())
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-6)
        if "score_" in name:
            assert not torch.equal(value, before[name]), f"{name} was not trained"


@pytest.mark.parametrize("compiled", [False, True])
def test_checkpointing_repeats_the_dropout(compiled):
    """The recomputed forward pass draws the seed that the first one drew."""
    module = ssa_attention.nn.SelfAttention(16, 4, causal=True, dropout=0.5)
    x = batch().requires_grad_()

    def gradients(run):
        torch.manual_seed(5)
        return torch.autograd.grad(run(x).square().sum(), [x, *module.parameters()])

    def checkpointed(x):
        return checkpoint(module, x, use_reentrant=False)

    run = torch.compile(checkpointed, backend="aot_eager") if compiled else checkpointed
    plain = torch.compile(module, backend="aot_eager") if compiled else module
    for ours, wanted in zip(gradients(run), gradients(plain), strict=True):
        torch.testing.assert_close(ours, wanted)
