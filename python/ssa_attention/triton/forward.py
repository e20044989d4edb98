"""The forward pass: a program has a block of queries of one head and walks over the blocks of keys that they see.

Weights are 2^(φ2(s) − maximum), φ2 = φ·log2(e), with a running maximum (arXiv 1805.02867).
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
from .tiles import Tile, falls, hidden_by_structure, key_range, make_filter, seen_keys, visible_scores


class Sums(NamedTuple):
    """Of a block of queries so far: Σ p·v, Σ p, the largest φ2."""

    output: Any
    total: Any
    largest: Any


@triton.jit
def add_blocks(
    sums, start, limit, query, rows, last, place, filter, key, key_base, value, value_base, p0, p1, careful, seed,
    threshold, EDGE: tl.constexpr, S: tl.constexpr, O: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Adds the keys of blocks [start, limit)."""
    values = sums.output
    total = sums.total
    largest = sums.largest
    for first in range(start, limit, BLOCK_N):
        columns = first + tl.arange(0, BLOCK_N)
        seen = seen_keys(last - rows.shape[0] + 1, last, columns, place.end, place.shift, filter.window, O)
        k = load_rows(key_base, key, first, seen, O.dim, O.block_dim, O)
        dots = product(query, tl.trans(k), O)
        tile = Tile(rows[:, None], columns[None, :], last - rows.shape[0] + 1, first)
        s, structure, hidden = visible_scores(dots, tile, place, filter, EDGE, O)
        phi2 = tl.where(hidden, -float("inf"), S.phi2(s, p0, p1, careful))
        raised = tl.maximum(largest, tl.max(phi2, 1))
        base = tl.where(raised == -float("inf"), 0.0, raised)
        weights = tl.exp2(phi2 - base[:, None])
        factor = tl.exp2(largest - base)
        total = total * factor + tl.sum(weights, 1)
        if O.dropout:
            weights = tl.where(falls(seed, place, place.head, tile, threshold), 0.0, weights)
        v = load_rows(value_base, value, first, seen, O.v_dim, O.block_v_dim, O)
        if O.mask or O.bias:  # what no query here sees must not meet a product: 0·NaN is NaN
            v = tl.where((tl.min(structure.to(tl.int32), 0) == 0)[:, None], v, 0.0)
        values = add_product(weights, v, values * factor[:, None], O)
        largest = raised
    return Sums(values, total, largest)


@triton.jit
def forward_kernel(
    query, key, value, out, lse, log_keys, problem, param0, param1, slopes, mask, bias, key_lengths, packed, seeds,
    S: tl.constexpr, O: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    place = find_place(problem, key_lengths, packed, O)
    head = place.head
    first = first_query_of(place, problem, BLOCK_M, O)
    if first < place.rows:
        rows = first + tl.arange(0, BLOCK_M)
        inside = rows < place.rows
        last = first + BLOCK_M - 1
        row_at = row_index(place, problem, head, rows)
        params = load_params(param0, param1, head, O)
        p0 = params.first
        p1 = params.second
        careful = params.careful
        if S.counts_keys:
            p1 = tl.load(log_keys + row_at, mask=inside, other=0.0)[:, None]
        filter = make_filter(mask, bias, head_value(slopes, head, O.alibi), problem, place.batch, head, O)
        seed = load_seed(seeds, O)
        kv_head = head // problem.group
        key_base = head_base(key, place.batch, kv_head, place.first_key)
        value_base = head_base(value, place.batch, kv_head, place.first_key)
        q = load_head(query, place.batch, head, place.first_query, first, inside, O.dim, O.block_dim, O)
        r = key_range(first, last, place.end, place.shift, problem.window, BLOCK_N, O)
        sums = Sums(
            zeros(BLOCK_M, O.block_v_dim),
            tl.zeros((BLOCK_M,), tl.float32),
            tl.full((BLOCK_M,), -float("inf"), tl.float32),
        )
        if O.windowed:
            sums = add_blocks(
                sums, r.first, r.full_first, q, rows, last, place, filter, key, key_base, value, value_base, p0, p1,
                careful, seed, problem.threshold, True, S, O, BLOCK_N,
            )  # fmt: skip
        sums = add_blocks(
            sums, r.full_first, r.full_limit, q, rows, last, place, filter, key, key_base, value, value_base, p0, p1,
            careful, seed, problem.threshold, False, S, O, BLOCK_N,
        )  # fmt: skip
        sums = add_blocks(
            sums, r.full_limit, r.limit, q, rows, last, place, filter, key, key_base, value, value_base, p0, p1,
            careful, seed, problem.threshold, True, S, O, BLOCK_N,
        )  # fmt: skip
        empty = sums.total == 0.0
        total = tl.where(empty, 1.0, sums.total)
        base = tl.where(empty, 0.0, sums.largest)
        normaliser = total
        if S.sink2 is not None:
            normaliser = total + tl.exp2(S.sink2(params.first, params.second, careful) - base)
        values = sums.output * (problem.kept_scale / normaliser)[:, None]
        # Where no key is seen, the sums may hold 0·NaN of a key that others see.
        values = tl.where(empty[:, None], 0.0, values)
        store_rows(
            head_base(out, place.batch, head, place.first_query), out, first, inside, values, O.v_dim, O.block_v_dim, O
        )
        log = tl.where(empty, -float("inf"), (base + tl.log2(total)) * 0.6931471805599453)
        tl.store(lse + row_at, log, mask=inside)


@triton.jit
def count_keys_kernel(
    log_keys, problem, mask, bias, key_lengths, packed,
    O: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """ln of the number of keys that each query sees, 0 for none: what ssmax multiplies by."""
    place = find_place(problem, key_lengths, packed, O)
    first = place.block * BLOCK_M
    if first < place.rows:
        rows = first + tl.arange(0, BLOCK_M)
        filter = make_filter(mask, bias, 0.0, problem, place.batch, place.head, O)
        r = key_range(first, first + BLOCK_M - 1, place.end, place.shift, problem.window, BLOCK_N, O)
        count = tl.zeros((BLOCK_M,), tl.int32)
        for first_key in range(r.first, r.limit, BLOCK_N):
            columns = first_key + tl.arange(0, BLOCK_N)
            hidden = hidden_by_structure(
                Tile(rows[:, None], columns[None, :], first, first_key), place, filter, True, O
            )
            count += tl.sum(1 - hidden.to(tl.int32), 1)
        row_at = row_index(place, problem, place.head, rows)
        tl.store(log_keys + row_at, tl.log(tl.maximum(count, 1).to(tl.float32)), mask=rows < place.rows)
