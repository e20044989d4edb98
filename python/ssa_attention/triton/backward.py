"""The backward pass, in three kernels that write disjoint results: what a row needs, dQ with the parameters'
gradients, dK and dV. Nothing is added atomically, so that the same input gives the same bits.

With w = 2^(φ2(s) − lse2) the keys' shares among themselves and `kept` their share of the whole normaliser (1 without a
sink), f dropout's factor, D = Σ_j kept·w·dP = rowsum(dO ∘ O) and dL the gradient of lse:
  dP = f∘(dO·Vᵀ),  dφ = w·(kept·(dP − D) + dL),  ds = dφ·∂φ/∂s,
  dV = (f∘kept·w)ᵀ·dO,  dK = scale·dsᵀ·Q,  dQ = scale·ds·K,  dparam = Σ dφ·∂φ/∂param.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

from .problem import (
    add_product,
    find_place,
    first_query_of,
    head_base,
    head_value,
    load_head,
    load_params,
    load_rows,
    load_seed,
    product,
    row_index,
    store_rows,
    zeros,
)
from .tiles import Tile, falls, key_range, make_filter, row_range, seen_keys, visible_scores


class RowBuffers(NamedTuple):
    """Per query, shaped like lse, float32."""

    lse2: Any  # log2 of the sum over keys, +inf where there is none, so that all weights are 0
    lse2_low: Any  # what lse2 loses to float32
    center: Any  # D, without a sink already less dL
    kept: Any  # with a sink


class Row(NamedTuple):
    """The same of a block of rows, shaped to broadcast to tiles."""

    lse2: Any
    lse2_low: Any
    center: Any
    kept: Any
    d_lse: Any


@triton.jit
def beside_columns(row):
    """Of a tile (queries, keys)."""
    return Row(row.lse2[:, None], row.lse2_low[:, None], row.center[:, None], row.kept[:, None], row.d_lse[:, None])


@triton.jit
def above_rows(row):
    """Of a tile (keys, queries)."""
    return Row(row.lse2[None, :], row.lse2_low[None, :], row.center[None, :], row.kept[None, :], row.d_lse[None, :])


@triton.jit
def weights_of(phi2, hidden, lse2, lse2_low):
    """The keys' shares among themselves. No share exceeds 1, whatever rounding says of a huge φ2."""
    exponent = phi2 - lse2 - lse2_low
    exponent = tl.where(exponent > 0.0, 0.0, exponent)
    return tl.where(hidden, 0.0, tl.exp2(exponent))


@triton.jit
def d_phi_of(weights, d_weights, row, hidden, S: tl.constexpr, O: tl.constexpr):
    if O.one_key and S.sink2 is None:  # p = 1 and dP = D, but for rounding
        d_phi = weights * row.d_lse
    elif S.sink2 is not None:
        d_phi = weights * (row.kept * (d_weights - row.center) + row.d_lse)
    else:
        d_phi = weights * (d_weights - row.center)
    return tl.where(hidden, 0.0, d_phi)


@triton.jit
def load_row(buffers, d_lse, at, inside, S: tl.constexpr):
    lse2 = tl.load(buffers.lse2 + at, mask=inside, other=float("inf"))
    lse2_low = tl.load(buffers.lse2_low + at, mask=inside, other=0.0)
    center = tl.load(buffers.center + at, mask=inside, other=0.0)
    kept = tl.full(lse2.shape, 1.0, tl.float32)
    if S.sink2 is not None:
        kept = tl.load(buffers.kept + at, mask=inside, other=0.0)
    dl = tl.zeros_like(lse2)
    if d_lse is not None:
        dl = tl.load(d_lse + at, mask=inside & (lse2 < float("inf")), other=0.0)
    return Row(lse2, lse2_low, center, kept, dl)


@triton.jit
def rows_kernel(
    query, key, value, out, lse, d_out, d_lse, log_keys, buffers, problem, param0, param1, slopes, mask, bias,
    key_lengths, packed, seeds,
    S: tl.constexpr, O: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """lse in base 2 and D. Where all keys of a block of rows lie in one block of keys, both are made from the scores
    again: a short row often has one weight near 1, dP − D then cancels, and what the rounding of lse and out leaves
    would be many times the error of a plain softmax."""
    place = find_place(problem, key_lengths, packed, O)
    head = place.head
    first = place.block * BLOCK_M
    if first < place.rows:
        rows = first + tl.arange(0, BLOCK_M)
        row_at = row_index(place, problem, head, rows)
        log = tl.load(lse + row_at, mask=rows < place.rows, other=-float("inf"))
        alive = log != -float("inf")  # NaN stays NaN
        wide = log.to(tl.float64) * 1.4426950408889634
        high = wide.to(tl.float32)
        low = (wide - high.to(tl.float64)).to(tl.float32)
        high = tl.where(alive, high, float("inf"))
        low = tl.where(alive & (tl.abs(high) < float("inf")), low, 0.0)
        grad = load_head(d_out, place.batch, head, place.first_query, first, alive, O.v_dim, O.block_v_dim, O)
        o = load_head(out, place.batch, head, place.first_query, first, alive, O.v_dim, O.block_v_dim, O)
        center = tl.sum(grad.to(tl.float32) * o.to(tl.float32), 1)
        params = load_params(param0, param1, head, O)
        p0 = params.first
        p1 = params.second
        careful = params.careful
        kept = tl.full((BLOCK_M,), 1.0, tl.float32)
        sink2 = 0.0
        if S.sink2 is not None:
            sink2 = S.sink2(p0, p1, careful)
        r = key_range(first, first + BLOCK_M - 1, place.end, place.shift, problem.window, BLOCK_N, O)
        one_block = (r.limit > r.first) & (r.limit - r.first <= BLOCK_N)
        if one_block:
            if S.counts_keys:
                p1 = tl.load(log_keys + row_at, mask=alive, other=0.0)[:, None]
            filter = make_filter(mask, bias, head_value(slopes, head, O.alibi), problem, place.batch, head, O)
            columns = r.first + tl.arange(0, BLOCK_N)
            seen = seen_keys(first, first + BLOCK_M - 1, columns, place.end, place.shift, problem.window, O)
            kv_head = head // problem.group
            q = load_head(query, place.batch, head, place.first_query, first, alive, O.dim, O.block_dim, O)
            k = load_head(key, place.batch, kv_head, place.first_key, r.first, seen, O.dim, O.block_dim, O)
            v = load_head(value, place.batch, kv_head, place.first_key, r.first, seen, O.v_dim, O.block_v_dim, O)
            dots = product(q, tl.trans(k), O)
            tile = Tile(rows[:, None], columns[None, :], first, r.first)
            s, _, hidden = visible_scores(dots, tile, place, filter, True, O)
            phi2 = tl.where(hidden, -float("inf"), S.phi2(s, p0, p1, careful))
            largest = tl.where(alive, tl.max(phi2, 1), 0.0)
            weights = tl.exp2(phi2 - largest[:, None])
            total = tl.where(alive, tl.sum(weights, 1), 1.0)
            d_weights = product(grad, tl.trans(v), O)
            if O.dropout:
                fall = falls(load_seed(seeds, O), place, head, tile, problem.threshold)
                d_weights = tl.where(fall, 0.0, d_weights * problem.kept_scale)
            high = tl.where(alive, largest, float("inf"))
            low = tl.log2(total)
            # From the very weights of the other kernels, which are not exactly those here over the total.
            shares = weights_of(S.phi2(s, p0, p1, careful), hidden, high[:, None], low[:, None])
            d_weights = tl.where(hidden, 0.0, d_weights)
            of_shares = tl.sum(shares, 1)
            center = tl.sum(shares * d_weights, 1) / tl.where(of_shares == 0.0, 1.0, of_shares)
            if S.sink2 is not None:
                center = center / (1.0 + tl.exp2(sink2 - high - low))
        if S.sink2 is not None:
            kept = 1.0 / (1.0 + tl.exp2(sink2 - high - low))
            tl.store(buffers.kept + row_at, tl.where(alive, kept, 0.0), mask=rows < place.rows)
        elif d_lse is not None:
            center = center - tl.load(d_lse + row_at, mask=alive, other=0.0)
        tl.store(buffers.lse2 + row_at, high, mask=rows < place.rows)
        tl.store(buffers.lse2_low + row_at, low, mask=rows < place.rows)
        tl.store(buffers.center + row_at, tl.where(alive, center, 0.0), mask=rows < place.rows)


class QuerySums(NamedTuple):
    """Of a block of queries so far: dQ; Σ dφ; for each parameter Σ dφ·∂φ/∂param and Σ kept·w·∂φ/∂param."""

    d_query: Any
    d_phi: Any
    d_param0: Any
    d_param1: Any
    weighted0: Any
    weighted1: Any


@triton.jit
def add_key_blocks(
    sums, start, limit, query, grad, row, rows, last, place, filter, key, key_base, value, value_base, p0, p1, careful,
    seed, problem, EDGE: tl.constexpr, S: tl.constexpr, O: tl.constexpr, PARAMS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Adds the keys of blocks [start, limit)."""
    d_query = sums.d_query
    d_phi_sum = sums.d_phi
    d_param0 = sums.d_param0
    d_param1 = sums.d_param1
    weighted0 = sums.weighted0
    weighted1 = sums.weighted1
    for first in range(start, limit, BLOCK_N):
        columns = first + tl.arange(0, BLOCK_N)
        seen = seen_keys(last - rows.shape[0] + 1, last, columns, place.end, place.shift, filter.window, O)
        k = load_rows(key_base, key, first, seen, O.dim, O.block_dim, O)
        v = load_rows(value_base, value, first, seen, O.v_dim, O.block_v_dim, O)
        dots = product(query, tl.trans(k), O)
        tile = Tile(rows[:, None], columns[None, :], last - rows.shape[0] + 1, first)
        s, structure, hidden = visible_scores(dots, tile, place, filter, EDGE, O)
        weights = weights_of(S.phi2(s, p0, p1, careful), hidden, row.lse2, row.lse2_low)
        d_weights = product(grad, tl.trans(v), O)
        if O.dropout:
            fall = falls(seed, place, place.head, tile, problem.threshold)
            d_weights = tl.where(fall, 0.0, d_weights * problem.kept_scale)
        d_phi = d_phi_of(weights, d_weights, row, hidden, S, O)
        if PARAMS > 0:
            shares = weights
            if S.sink2 is not None:
                shares = weights * row.kept
            d_phi_sum += tl.sum(d_phi, 1)
            derivative0 = S.dphi_dparams[0](s, p0, p1, careful)
            d_param0 += tl.sum(d_phi * derivative0, 1)
            weighted0 += tl.sum(shares * derivative0, 1)
        if PARAMS > 1:
            derivative1 = S.dphi_dparams[1](s, p0, p1, careful)
            d_param1 += tl.sum(d_phi * derivative1, 1)
            weighted1 += tl.sum(shares * derivative1, 1)
        d_scores = d_phi * S.dphi_ds(s, p0, p1, careful)
        if O.mask or O.bias:  # what no query here sees must not meet a product: 0·NaN is NaN
            k = tl.where((tl.min(structure.to(tl.int32), 0) == 0)[:, None], k, 0.0)
        d_query = add_product(d_scores, k, d_query, O)
    return QuerySums(d_query, d_phi_sum, d_param0, d_param1, weighted0, weighted1)


@triton.jit
def settle(d_param, weighted, d_phi, sink, d_sink, derivative, d_lse, S: tl.constexpr):
    """A parameter's gradient of a block. Σ dφ over a row, its sink included, is dL; what it is off, D has brought in,
    an out rounded to bfloat16 for instance. The gradient is a sum that cancels a thousandfold: the share of that error
    is taken out again (docs/kernels.md)."""
    if S.sink2 is not None:
        d_param += d_sink * derivative
        weighted += sink * derivative
    return tl.sum(d_param - (d_phi - d_lse) * weighted, 0)


@triton.jit
def query_kernel(
    query, key, value, d_out, d_lse, log_keys, buffers, d_query, partial, problem, param0, param1, slopes, mask, bias,
    key_lengths, packed, seeds,
    S: tl.constexpr, O: tl.constexpr, PARAMS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """dQ of a block of queries and, for PARAMS parameters, its share of their gradients in partial[program, param]."""
    place = find_place(problem, key_lengths, packed, O)
    head = place.head
    first = first_query_of(place, problem, BLOCK_M, O)
    if first < place.rows:
        rows = first + tl.arange(0, BLOCK_M)
        inside = rows < place.rows
        last = first + BLOCK_M - 1
        row_at = row_index(place, problem, head, rows)
        row = load_row(buffers, d_lse, row_at, inside, S)
        alive = row.lse2 != float("inf")
        params = load_params(param0, param1, head, O)
        p0 = params.first
        p1 = params.second
        careful = params.careful
        sink2 = 0.0
        if S.sink2 is not None:
            sink2 = S.sink2(p0, p1, careful)
        if S.counts_keys:
            p1 = tl.load(log_keys + row_at, mask=inside, other=0.0)[:, None]
        filter = make_filter(mask, bias, head_value(slopes, head, O.alibi), problem, place.batch, head, O)
        seed = load_seed(seeds, O)
        kv_head = head // problem.group
        key_base = head_base(key, place.batch, kv_head, place.first_key)
        value_base = head_base(value, place.batch, kv_head, place.first_key)
        q = load_head(query, place.batch, head, place.first_query, first, alive, O.dim, O.block_dim, O)
        grad = load_head(d_out, place.batch, head, place.first_query, first, alive, O.v_dim, O.block_v_dim, O)
        tile_row = beside_columns(row)
        r = key_range(first, last, place.end, place.shift, problem.window, BLOCK_N, O)
        none = tl.zeros((BLOCK_M,), tl.float32)
        sums = QuerySums(zeros(BLOCK_M, O.block_dim), none, none, none, none, none)
        if O.windowed:
            sums = add_key_blocks(
                sums, r.first, r.full_first, q, grad, tile_row, rows, last, place, filter, key, key_base, value,
                value_base, p0, p1, careful, seed, problem, True, S, O, PARAMS, BLOCK_N,
            )  # fmt: skip
        sums = add_key_blocks(
            sums, r.full_first, r.full_limit, q, grad, tile_row, rows, last, place, filter, key, key_base, value,
            value_base, p0, p1, careful, seed, problem, False, S, O, PARAMS, BLOCK_N,
        )  # fmt: skip
        sums = add_key_blocks(
            sums, r.full_limit, r.limit, q, grad, tile_row, rows, last, place, filter, key, key_base, value,
            value_base, p0, p1, careful, seed, problem, True, S, O, PARAMS, BLOCK_N,
        )  # fmt: skip
        if d_query is not None:
            store_rows(
                head_base(d_query, place.batch, head, place.first_query), d_query, first, inside,
                sums.d_query * problem.scale, O.dim, O.block_dim, O,
            )  # fmt: skip
        if PARAMS > 0:
            sink = none
            d_sink = none
            d_phi = sums.d_phi
            derivative0 = 0.0
            if S.sink2 is not None:  # a key with value 0: its dφ is −(its share)·D
                sink = tl.where(alive, 1.0 / (1.0 + tl.exp2(row.lse2 + row.lse2_low - sink2)), 0.0)
                d_sink = -sink * row.center
                d_phi += d_sink
                derivative0 = S.dsink_dparams[0](p0, p1, careful)
            at = partial + tl.program_id(0).to(tl.int64) * PARAMS
            tl.store(at, settle(sums.d_param0, sums.weighted0, d_phi, sink, d_sink, derivative0, row.d_lse, S))
            if PARAMS > 1:
                derivative1 = 0.0
                if S.sink2 is not None:
                    derivative1 = S.dsink_dparams[1](p0, p1, careful)
                tl.store(at + 1, settle(sums.d_param1, sums.weighted1, d_phi, sink, d_sink, derivative1, row.d_lse, S))


class KeySums(NamedTuple):
    """Of a block of keys so far."""

    d_key: Any
    d_value: Any


@triton.jit
def add_row_blocks(
    sums, start, limit, k, v, columns, first_column, place, head, filter, query, query_base, d_out, grad_base, row_base, buffers,
    d_lse, log_keys, p0, p1, careful, seed, problem,
    EDGE: tl.constexpr, S: tl.constexpr, O: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Adds the queries of blocks [start, limit) of one head. Tiles are (keys, queries), so that no product needs a
    transposed tile of weights."""
    d_key = sums.d_key
    d_value = sums.d_value
    for first in range(start, limit, BLOCK_M):
        rows = first + tl.arange(0, BLOCK_M)
        row = load_row(buffers, d_lse, row_base + rows, rows < place.rows, S)
        alive = row.lse2 != float("inf")  # what other rows hold must not meet a product: 0·NaN is NaN
        q = load_rows(query_base, query, first, alive, O.dim, O.block_dim, O)
        grad = load_rows(grad_base, d_out, first, alive, O.v_dim, O.block_v_dim, O)
        own_p1 = p1
        if S.counts_keys:
            own_p1 = tl.load(log_keys + row_base + rows, mask=rows < place.rows, other=0.0)[None, :]
        tile_row = above_rows(row)
        dots = product(k, tl.trans(q), O)
        tile = Tile(rows[None, :], columns[:, None], first, first_column)
        s, _, hidden = visible_scores(dots, tile, place, filter, EDGE, O)
        weights = weights_of(S.phi2(s, p0, own_p1, careful), hidden, tile_row.lse2, tile_row.lse2_low)
        d_weights = product(v, tl.trans(grad), O)
        kept = weights
        if S.sink2 is not None:
            kept = weights * tile_row.kept
        if O.dropout:
            fall = falls(seed, place, head, tile, problem.threshold)
            d_weights = tl.where(fall, 0.0, d_weights * problem.kept_scale)
            kept = tl.where(fall, 0.0, kept)
        d_value = add_product(kept, grad, d_value, O)
        d_phi = d_phi_of(weights, d_weights, tile_row, hidden, S, O)
        d_scores = d_phi * S.dphi_ds(s, p0, own_p1, careful)
        d_key = add_product(d_scores, q, d_key, O)
    return KeySums(d_key, d_value)


@triton.jit
def key_kernel(
    query, key, value, d_out, d_lse, log_keys, buffers, d_key, d_value, problem, param0, param1, slopes, mask, bias,
    key_lengths, packed, seeds,
    S: tl.constexpr, O: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """dK and dV of a block of keys of one key head: the sum over the queries of its group's heads. Here problem.heads
    are key heads and problem.blocks blocks of keys."""
    place = find_place(problem, key_lengths, packed, O)
    first = place.block * BLOCK_N
    if first < place.keys:
        columns = first + tl.arange(0, BLOCK_N)
        exists = columns < place.end
        key_base = head_base(key, place.batch, place.head, place.first_key)
        value_base = head_base(value, place.batch, place.head, place.first_key)
        k = load_rows(key_base, key, first, exists, O.dim, O.block_dim, O)
        v = load_rows(value_base, value, first, exists, O.v_dim, O.block_v_dim, O)
        seed = load_seed(seeds, O)
        r = row_range(first, first + BLOCK_N - 1, place.rows, place.end, place.shift, problem.window, BLOCK_M, O)
        sums = KeySums(zeros(BLOCK_N, O.block_dim), zeros(BLOCK_N, O.block_v_dim))
        for member in range(problem.group):
            head = place.head * problem.group + member
            params = load_params(param0, param1, head, O)
            filter = make_filter(mask, bias, head_value(slopes, head, O.alibi), problem, place.batch, head, O)
            query_base = head_base(query, place.batch, head, place.first_query)
            grad_base = head_base(d_out, place.batch, head, place.first_query)
            row_base = row_index(place, problem, head, 0, True)
            sums = add_row_blocks(
                sums, r.first, r.full_first, k, v, columns, first, place, head, filter, query, query_base, d_out, grad_base,
                row_base, buffers, d_lse, log_keys, params.first, params.second, params.careful, seed, problem, True, S, O, BLOCK_M,
            )  # fmt: skip
            sums = add_row_blocks(
                sums, r.full_first, r.full_limit, k, v, columns, first, place, head, filter, query, query_base, d_out,
                grad_base, row_base, buffers, d_lse, log_keys, params.first, params.second, params.careful, seed, problem, False, S, O, BLOCK_M,
            )  # fmt: skip
            sums = add_row_blocks(
                sums, r.full_limit, r.limit, k, v, columns, first, place, head, filter, query, query_base, d_out, grad_base,
                row_base, buffers, d_lse, log_keys, params.first, params.second, params.careful, seed, problem, True, S, O, BLOCK_M,
            )  # fmt: skip
        inside = columns < place.keys
        if d_key is not None:
            store_rows(
                head_base(d_key, place.batch, place.head, place.first_key), d_key, first, inside,
                tl.where(exists[:, None], sums.d_key * problem.scale, 0.0), O.dim, O.block_dim, O,
            )  # fmt: skip
        if d_value is not None:
            store_rows(
                head_base(d_value, place.batch, place.head, place.first_key), d_value, first, inside,
                tl.where(exists[:, None], sums.d_value * problem.kept_scale, 0.0), O.v_dim, O.block_v_dim, O,
            )  # fmt: skip
