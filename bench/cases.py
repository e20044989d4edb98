"""What is timed: attention problems and the peers that solve them."""

from __future__ import annotations

from dataclasses import dataclass

import formula
import ssa_attention
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

PEER = "SDPA softmax"
OURS = "ours ssa"
KINDS = ("causal", "full", "padded", "gqa", "dropout", "decode", "decode-gqa")
DROPOUT = 0.1


@dataclass(frozen=True)
class Case:
    """What is attended to: causal, full, padded (key lengths between half and all), GQA (causal, a quarter of
    the heads for keys and values), dropout (causal, of a tenth of the weights), or decode (one query; `length`
    keys lie in a cache, heads outside; decode-gqa: four query heads to each of its heads)."""

    shape: tuple[int, int, int, int]  # batch, query heads, length, head dimension
    kind: str
    dtype: torch.dtype
    backward: bool
    peers: str = "all"  # fused: SDPA and ours, eager: also plain PyTorch, all: also what torch compiles

    @property
    def decodes(self) -> bool:
        return self.kind.startswith("decode")

    @property
    def name(self) -> str:
        size = "x".join(map(str, self.shape))
        return f"{size} {self.kind} {str(self.dtype)[6:]} {'fwd+bwd' if self.backward else 'fwd'}"


def key_heads(case: Case) -> int:
    return max(1, case.shape[1] // 4) if case.kind.endswith("gqa") else case.shape[1]


class Problem:
    def __init__(self, case: Case):
        generator = torch.Generator().manual_seed(0)
        batch, heads, length, dim = case.shape
        kv_heads = key_heads(case)

        def normal(count, rows=length):  # as a projection gives it: heads inside of length
            flat = torch.randn(batch, rows, count, dim, generator=generator, dtype=torch.float32)
            outside = flat.to(case.dtype).transpose(1, 2)
            return (outside.contiguous() if case.decodes else outside).requires_grad_(case.backward)

        self.case = case
        self.query = normal(heads, 1 if case.decodes else length)
        self.key, self.value = normal(kv_heads), normal(kv_heads)
        self.d_out = torch.randn(self.query.shape, generator=generator).to(case.dtype)
        self.causal = case.kind in ("causal", "gqa", "dropout")
        self.dropout = DROPOUT if case.kind == "dropout" else 0.0
        self.key_lengths = self.mask = None
        if case.kind == "padded":
            self.key_lengths = torch.linspace(length // 2, length, batch).long()
            self.mask = (torch.arange(length) < self.key_lengths.view(-1, 1)).view(batch, 1, 1, length)
        self.n, self.b = torch.full((heads,), 1.5), torch.full((heads,), 0.8)
        if case.backward:
            self.n.requires_grad_()
            self.b.requires_grad_()

    def pairs(self) -> float:
        """Visible (query, key) pairs of all heads."""
        batch, heads, length, _ = self.case.shape
        if self.case.decodes:
            return batch * heads * length
        if self.causal:
            return batch * heads * length * (length + 1) / 2
        keys = batch * length if self.key_lengths is None else int(self.key_lengths.sum())
        return heads * length * keys

    def operations(self) -> float:
        return self.pairs() * self.case.shape[3] * (14 if self.case.backward else 4)

    def key_bytes(self) -> int:
        """Of keys and values: what decoding reads."""
        return 2 * self.key.numel() * self.key.element_size()

    def run(self, function) -> None:
        """One forward pass, and the gradients of everything."""
        if not self.case.backward:
            with torch.no_grad():
                function(self)
            return
        leaves = (self.query, self.key, self.value, self.n, self.b)
        out = function(self)
        torch.autograd.grad(out, leaves, self.d_out, allow_unused=True)


def ours(p: Problem, score: str = "ssa"):
    params = [p.n, p.b] if score == "ssa" else []
    return ssa_attention.attention(
        p.query, p.key, p.value, score=score, params=params, causal=p.causal, key_lengths=p.key_lengths,
        dropout=p.dropout,
    )  # fmt: skip


def sdpa(p: Problem):
    gqa = p.query.shape[1] != p.key.shape[1]
    return scaled_dot_product_attention(
        p.query, p.key, p.value, attn_mask=p.mask, dropout_p=p.dropout, is_causal=p.causal, enable_gqa=gqa
    )


def sdpa_math(p: Problem):
    with sdpa_kernel(SDPBackend.MATH):
        return sdpa(p)


def eager_ssa(p: Problem):
    """What the formula says, in plain PyTorch."""
    group = p.query.shape[1] // p.key.shape[1]
    key, value = p.key.repeat_interleave(group, 1), p.value.repeat_interleave(group, 1)
    scores = (p.query @ key.transpose(2, 3)).float() * p.query.shape[3] ** -0.5
    hidden = [formula.future(scores)] if p.causal else []
    if p.mask is not None:
        hidden.append(~p.mask)
    return formula.attention(scores, value, p.n.view(-1, 1, 1), p.b.view(-1, 1, 1), hidden, p.dropout)


def compiled(function):
    whole = torch.compile(function, dynamic=False)
    return lambda p: whole(p)


def flex_ssa():
    run = formula.flex(lambda score, batch, head, query, key: formula.phi(score, 1.5, 0.8), "cpu")
    return lambda p: run(p.query, p.key, p.value, p.causal)


def peers(case: Case) -> dict:
    found = {PEER: sdpa, OURS: ours, "ours softmax": lambda p: ours(p, "softmax")}
    if case.peers != "fused":
        found |= {"SDPA math": sdpa_math, "eager SSA": eager_ssa}
    if case.peers == "all":
        found["torch.compile of eager SSA"] = compiled(eager_ssa)
        if case.kind in ("causal", "full") and not case.backward:  # FlexAttention has no backward on the CPU
            found["FlexAttention SSA"] = flex_ssa()
    return found
