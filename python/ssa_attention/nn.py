"""Modules around the operator: trainable score parameters, and a self-attention layer to drop in."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from torch import Tensor, nn

from .operator import Kernel, attention
from .score_parameters import Parametrisation, ScoreParameters, compute_type, keeping_precision

__all__ = ["Attention", "Parametrisation", "ScoreParameters", "SelfAttention"]


class Attention(nn.Module):
    """`ssa_attention.attention` with score parameters that the module owns.

    Takes query, key and value that are already split into heads; no projections. Arguments of the
    constructor: those of `ScoreParameters`, then `window`, `alibi_slopes` (kept as a buffer), `dropout`
    (used in training mode only; one seed is drawn per call from torch's generator) and `kernel` as in
    `ssa_attention.attention`.
    """

    def __init__(
        self,
        heads: int,
        score: str = "ssa",
        *,
        per_head: bool = True,
        parametrisation: Parametrisation = "softplus",
        initial: Mapping[str, float] | None = None,
        frozen: Collection[str] | None = None,
        window: int | None = None,
        alibi_slopes: Tensor | None = None,
        dropout: float = 0.0,
        kernel: Kernel = "auto",
    ) -> None:
        super().__init__()
        self.parameters_of_score = ScoreParameters(
            heads,
            score,
            per_head=per_head,
            parametrisation=parametrisation,
            initial=initial,
            frozen=frozen,
        )
        self.window = window
        self.register_buffer("alibi_slopes", alibi_slopes)
        self.dropout = dropout
        self.kernel: Kernel = kernel

    @property
    def score(self) -> str:
        return self.parameters_of_score.score

    def score_values(self) -> dict[str, Tensor]:
        """Effective values of the score's parameters by name."""
        return self.parameters_of_score.values()

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        key_lengths: Tensor | None = None,
        causal: bool = False,
        scale: float | Tensor | None = None,
        cu_query: Tensor | None = None,
        cu_key: Tensor | None = None,
        seed: int | Tensor | None = None,
    ) -> Tensor:
        """Shapes and meaning as in `ssa_attention.attention`; returns out (B, heads, T_q, D_v)."""
        dtype = compute_type(query)
        return attention(
            query,
            key,
            value,
            score=self.score,
            params=self.parameters_of_score(dtype),
            mask=mask,
            bias=bias,
            key_lengths=key_lengths,
            causal=causal,
            window=self.window,
            alibi_slopes=None if self.alibi_slopes is None else self.alibi_slopes.to(dtype),
            cu_query=cu_query,
            cu_key=cu_key,
            scale=scale,
            dropout=self.dropout if self.training else 0.0,
            seed=seed,
            kernel=self.kernel,
        )

    def _apply(self, fn, recurse=True):
        # The slopes of ALiBi keep their digits as the score's parameters do.
        slopes, self.alibi_slopes = self.alibi_slopes, None
        try:
            super()._apply(fn, recurse)
            slopes = None if slopes is None else keeping_precision(fn)(slopes)
        finally:
            self.alibi_slopes = slopes
        return self

    def extra_repr(self) -> str:
        return f"window={self.window}, dropout={self.dropout}, kernel={self.kernel!r}"


class SelfAttention(nn.Module):
    """Multi-head self-attention: projections to query, key and value, attention, output projection.

    Args:
        width: size of the input's and output's last dimension; a multiple of `heads`.
        heads: number of query heads, each of width/heads dimensions.
        kv_heads: number of key and value heads (grouped heads); None: as many as query heads.
        causal: whether position i sees only positions up to i.
        bias: whether the projections have a bias.
        score, per_head, parametrisation, initial, frozen, window, alibi_slopes, dropout, kernel: as in
            `Attention`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        causal: bool = False,
        bias: bool = True,
        score: str = "ssa",
        per_head: bool = True,
        parametrisation: Parametrisation = "softplus",
        initial: Mapping[str, float] | None = None,
        frozen: Collection[str] | None = None,
        window: int | None = None,
        alibi_slopes: Tensor | None = None,
        dropout: float = 0.0,
        kernel: Kernel = "auto",
    ) -> None:
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        if heads < 1 or width % heads:
            raise ValueError(f"width must be a multiple of heads, got width {width} and {heads} heads")
        if kv_heads < 1 or heads % kv_heads:
            raise ValueError(f"heads must be a multiple of kv_heads, got {heads} and {kv_heads}")
        self.heads, self.kv_heads, self.causal = heads, kv_heads, causal
        self.head_dimension = width // heads
        self.query = nn.Linear(width, width, bias=bias)
        self.key = nn.Linear(width, kv_heads * self.head_dimension, bias=bias)
        self.value = nn.Linear(width, kv_heads * self.head_dimension, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)
        self.attention = Attention(
            heads,
            score,
            per_head=per_head,
            parametrisation=parametrisation,
            initial=initial,
            frozen=frozen,
            window=window,
            alibi_slopes=alibi_slopes,
            dropout=dropout,
            kernel=kernel,
        )

    def forward(
        self,
        inputs: Tensor,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        key_lengths: Tensor | None = None,
        cu_lengths: Tensor | None = None,
        seed: int | Tensor | None = None,
    ) -> Tensor:
        """inputs (batch, length, width) to the same shape.

        mask (bool, True = may attend) and bias broadcast to (batch, heads, length, length);
        key_lengths, int64 (batch), is the number of real positions of each row, the rest being padding.
        seed, of the dropout, is as in `ssa_attention.attention`.
        cu_lengths, int64 (N + 1), are the cumulative lengths of N sequences packed into a batch of 1.
        """
        batch, length, width = inputs.shape

        def split(projected: Tensor, heads: int) -> Tensor:  # a view: the operator takes any strides
            return projected.view(batch, length, heads, self.head_dimension).transpose(1, 2)

        out = self.attention(
            split(self.query(inputs), self.heads),
            split(self.key(inputs), self.kv_heads),
            split(self.value(inputs), self.kv_heads),
            mask=mask,
            bias=bias,
            key_lengths=key_lengths,
            cu_query=cu_lengths,
            cu_key=cu_lengths,
            causal=self.causal,
            seed=seed,
        )
        return self.output(out.transpose(1, 2).reshape(batch, length, width))

    def extra_repr(self) -> str:
        return f"heads={self.heads}, kv_heads={self.kv_heads}, causal={self.causal}"
