"""Attention as a user would write it in plain PyTorch, differentiated by autograd: what the operator is
compared with. In float64 it is the truth, in the operator's own precision it is the yardstick of error."""

import ast
import math

import row_maps
import ssa_attention
import torch


class Log1p(ast.NodeTransformer):
    """log(1 + x) as it is computed: log1p(x)."""

    def visit_Call(self, call):
        self.generic_visit(call)
        (argument,) = call.args
        sums = isinstance(argument, ast.BinOp) and isinstance(argument.op, ast.Add)
        if call.func.id == "log" and sums and getattr(argument.left, "value", None) == 1:
            return ast.Call(ast.Name("log1p", ast.Load()), [argument.right], [])
        return call


def phi_of(score: str):
    """φ as a Python function of s, N and the parameters, made from the formula that users read: any of numbers, names,
    |x|, + − · / ^ and functions that torch has."""
    parts = ssa_attention.scores()[score].formula.split("|")
    assert len(parts) % 2 == 1, f"{score}: a | without its partner"
    text = "".join(part if k == 0 else f"abs({part}" if k % 2 else f"){part}" for k, part in enumerate(parts))
    tree = Log1p().visit(ast.parse(text.replace("·", "*").replace("^", "**"), mode="eval"))
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call)}
    functions = {name: getattr(torch, {"sgn": "sign"}.get(name, name)) for name in called}
    code = compile(ast.fix_missing_locations(tree), f"formula of {score}", "eval")
    names = ["s", "N", *param_names(score)]
    return lambda *values: eval(code, functions, dict(zip(names, values, strict=True)))


def sink_of(score: str, params):
    """Score of the extra term of the normaliser, or None."""
    sink = ssa_attention.scores()[score].sink
    if sink == "":
        return None
    return dict(zip(param_names(score), params, strict=True)).get(sink, torch.zeros(()))


def distances(query, key):
    """Key positions minus query positions, aligned at the bottom right."""
    rows, columns = query.shape[2], key.shape[2]
    return torch.arange(columns) - torch.arange(rows).unsqueeze(-1) - (columns - rows)


def hidden_pairs(query, key, mask=None, bias=None, key_lengths=None, causal=False, window=None):
    """bool (batch, query heads, query length, key length): pairs that do not take part."""
    (batch, heads, rows, _), columns = query.shape, key.shape[2]
    hidden = torch.zeros(batch, heads, rows, columns, dtype=torch.bool)
    if mask is not None:
        hidden = hidden | ~mask
    if bias is not None:
        hidden = hidden | (bias == -math.inf)
    if key_lengths is not None:
        hidden = hidden | (torch.arange(columns) >= key_lengths.view(-1, 1, 1, 1))
    ahead = distances(query, key)
    if causal:
        hidden = hidden | (ahead > 0)
    if window is not None:
        hidden = hidden | (ahead.abs() >= window)
    return hidden


def eager_attention(
    query, key, value, *, score, params, bias=None, alibi_slopes=None, scale=None, factor=None, **options
):
    """out, lse (empty where the score has none). `factor` multiplies the weights (dropout)."""
    if family_of(score) == "linear":
        return row_maps.cosformer(
            query, key, value, options.get("key_lengths"), options.get("causal", False), params[0][0].item()
        ), query.new_empty(0)
    groups = query.shape[1] // key.shape[1]
    scores = query @ key.repeat_interleave(groups, 1).transpose(2, 3)
    scores = scores * (query.shape[3] ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    if alibi_slopes is not None:
        scores = scores - alibi_slopes.view(-1, 1, 1) * distances(query, key).abs()
    hidden = hidden_pairs(query, key, bias=bias, **options)
    scores = scores.masked_fill(hidden, 0)
    params = [p.view(-1, 1, 1) for p in params]
    empty = hidden.all(-1, keepdim=True)
    if family_of(score) == "row map":
        weights, lse = row_maps.weights(score, scores, hidden, params), query.new_empty(0)
    else:
        seen = (~hidden).sum(-1, keepdim=True).clamp(min=1).to(scores.dtype)
        phi = phi_of(score)(scores, seen, *params)
        phi = phi.masked_fill(hidden & ~empty, -math.inf)  # a row of -inf alone would have gradient NaN
        lse = torch.logsumexp(phi, -1).masked_fill(empty.squeeze(-1), -math.inf)
        sink = sink_of(score, params)
        if sink is not None:
            phi = torch.cat([phi, sink.to(phi.dtype).expand(*phi.shape[:-1], 1)], -1)
        weights = torch.softmax(phi, -1)[..., : key.shape[2]].masked_fill(empty, 0)
    if factor is not None:
        weights = weights * factor
    return weights.to(value.dtype) @ value.repeat_interleave(groups, 1), lse


def largest_error(ours, truth):
    finite = truth.isfinite()
    return (ours[finite].double() - truth[finite]).abs().max().item()


def check_error(name, ours, eager, truth, times, floor_units=4.0, yardstick=None):
    """The error rule: at most `times` the error of eager PyTorch in the same precision (or `yardstick`), plus a floor
    in units of ε max|truth|."""
    assert ours.shape == truth.shape, f"{name}: shape {tuple(ours.shape)}, expected {tuple(truth.shape)}"
    finite = truth.isfinite()
    assert torch.equal(ours[~finite].double(), truth[~finite].double()), f"{name}: infinities differ"
    if not finite.any():
        return
    error = largest_error(ours, truth)
    yardstick = largest_error(eager, truth) if yardstick is None else yardstick
    floor = floor_units * torch.finfo(ours.dtype).eps * truth[finite].abs().max().item()
    assert error <= times * yardstick + floor, (
        f"{name}: error {error:.3g}, eager PyTorch {yardstick:.3g}, floor {floor:.3g}"
    )


class Problem:
    """Random inputs from a seed, exact in float32, so that every precision sees the same numbers."""

    def __init__(
        self,
        seed,
        *,
        batch=1,
        heads=2,
        kv_heads=None,
        rows=4,
        columns=None,
        dim=8,
        v_dim=None,
        score="ssa",
        size=1.0,
    ):
        kv_heads = heads if kv_heads is None else kv_heads
        columns = rows if columns is None else columns
        v_dim = dim if v_dim is None else v_dim
        self.shape = {
            "batch": batch,
            "heads": heads,
            "kv_heads": kv_heads,
            "rows": rows,
            "columns": columns,
            "dim": dim,
            "v_dim": v_dim,
        }
        self.size = size
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape):
            return torch.randn(*shape, generator=generator).double()

        self.score = score
        self.query = normal(batch, heads, rows, dim) * size
        self.key = normal(batch, kv_heads, columns, dim)
        self.value = normal(batch, kv_heads, columns, v_dim)
        self.params = [
            self.param_values(param, torch.rand(heads, generator=generator))
            for param in ssa_attention.scores()[score].params
        ]
        self.d_out = normal(batch, heads, rows, v_dim)
        self.d_lse = normal(batch, heads, rows)

    def redrawn(self, seed):
        """Another problem of this shape and score."""
        return Problem(seed, **self.shape, score=self.score, size=self.size)

    def param_values(self, param, uniform):
        """Values around the initial one, exact in float32."""
        if family_of(self.score) == "linear":
            return torch.full_like(uniform, param.initial).double()  # one for all heads
        if param.above == -math.inf:
            return (param.initial + 4 * uniform - 2).double()
        return (param.above + (param.initial - param.above) * (0.5 + 1.5 * uniform)).double()

    def run(self, dtype, function, bias=None, **options):
        """out, lse and every gradient by name, of `function(query, key, value, score=…, params=…, …)`."""
        inputs = {"dq": self.query, "dk": self.key, "dv": self.value}
        inputs |= {f"d{name}": p for name, p in zip(param_names(self.score), self.params, strict=True)}
        if bias is not None:
            inputs["dbias"] = bias
        leaves = {name: tensor.to(dtype, copy=True).requires_grad_() for name, tensor in inputs.items()}
        query, key, value, *params = (leaves[name] for name in leaves if name != "dbias")
        if family_of(self.score) == "linear":
            leaves = {name: leaves[name] for name in ("dq", "dk", "dv")}
            params = [param.detach() for param in params]
        out, lse = function(query, key, value, score=self.score, params=params, bias=leaves.get("dbias"), **options)
        if family_of(self.score) == "phi":
            d_lse = self.d_lse.to(dtype).masked_fill(lse.detach() == -math.inf, 0)
            torch.autograd.backward([out, lse], [self.d_out.to(dtype), d_lse])
        else:
            assert lse.numel() == 0
            out.backward(self.d_out.to(dtype))
        return {"out": out.detach(), "lse": lse.detach()} | {name: leaf.grad for name, leaf in leaves.items()}


def family_of(score):
    return ssa_attention.scores()[score].family


def paths_of(score):
    """The paths that can take a float32 call on the CPU."""
    return ["fused", "composed"] if family_of(score) == "phi" else ["composed"]


def taken_by(score, **options):
    """Those of the options that the score has."""
    refused = ("mask", "bias", "dropout", "seed", "window", "alibi_slopes") if family_of(score) == "linear" else ()
    return {name: value for name, value in options.items() if name not in refused}


def param_names(score):
    return [param.name for param in ssa_attention.scores()[score].params]


def operator(kernel, path=None):
    """The operator with this `kernel`, called as eager_attention is; it must take `path` (default: of that name)."""

    def call(query, key, value, **options):
        result = ssa_attention.attention(query, key, value, kernel=kernel, return_lse=True, **options)
        assert ssa_attention.last_attention_path() == (kernel if path is None else path)
        return result

    return call


def largest_lse(results):
    values = [each["lse"][each["lse"].isfinite()].abs() for each in results]
    return max((value.max().item() for value in values if value.numel() > 0), default=0.0)


def in_type(dtype, function):
    """`function` on tensors rounded to a narrower type; out comes back in float32."""

    def call(query, key, value, **options):
        out, lse = function(query.to(dtype), key.to(dtype), value.to(dtype), **options)
        return out.float(), lse.float()

    return call


def check_problems(problems, paths=None, **options):
    """The error rule in float32 for both paths on the CPU, or for those given: (kernel, its path) each.

    The gradients of the parameters are a few sums that cancel, so in one problem the error of either side is
    luck: they are compared over all problems together, and eager PyTorch's error is that of at least four (in one
    problem with four heads it was 6e-7, in two others 4e-6 and 7e-6). The fused backward makes the weights again
    from lse, which is stored in float32: rounding it to ε|lse|/2 moves them by that factor, whatever else is exact.
    """
    truths = [p.run(torch.float64, eager_attention, **options) for p in problems]
    eagers = [p.run(torch.float32, eager_attention, **options) for p in problems]
    summed = {f"d{name}" for name in param_names(problems[0].score)}
    more = [problems[0].redrawn(1000 + i) for i in range(4 - len(problems))] if summed else []
    pooled_truths = truths + [p.run(torch.float64, eager_attention, **options) for p in more]
    pooled_eagers = eagers + [p.run(torch.float32, eager_attention, **options) for p in more]
    for kernel, path in paths or [(kernel, kernel) for kernel in paths_of(problems[0].score)]:
        ours = [p.run(torch.float32, operator(kernel, path), **options) for p in problems]
        stored = max(4.0, largest_lse(truths)) if kernel == "fused" else 4.0
        for name in truths[0]:
            times, units = (2, 4.0) if name in ("out", "lse") else (3, stored)
            columns = [[results[name] for results in side] for side in (ours, eagers, truths)]
            if name in summed:
                pool = [torch.cat([results[name] for results in side]) for side in (pooled_eagers, pooled_truths)]
                check_error(f"{kernel} {name}", *map(torch.cat, columns), times, units, largest_error(*pool))
            else:
                for triple in zip(*columns, strict=True):
                    check_error(f"{kernel} {name}", *triple, times, units)
