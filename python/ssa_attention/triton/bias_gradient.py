"""The gradient of the bias: a program has a tile of it and adds up all that broadcasts to that tile, in a fixed order.

Where the bias has one value for many pairs, few programs do much work one after the other: right and the same bits each
time, not fast.
"""

from typing import NamedTuple

import triton
import triton.language as tl

from .backward import beside_columns, d_phi_of, load_row, weights_of
from .problem import Place, head_value, load_head, load_params, load_seed, product, row_index, zeros
from .tiles import Tile, falls, make_filter, seen_keys, visible_scores


class BiasGrid(NamedTuple):
    """Tiles of the bias along its last two dimensions, and what its first two are."""

    row_blocks: int
    column_blocks: int
    bias_heads: int  # heads, or 1 for all
    batches: int  # batch rows that one element of the bias is for: all of them, or 1
    heads: int  # likewise


@triton.jit
def bias_kernel(
    query, key, value, d_out, d_lse, log_keys, buffers, d_bias, grid, problem, param0, param1, slopes, mask, bias,
    key_lengths, seeds,
    S: tl.constexpr, O: tl.constexpr, ONE_ROW: tl.constexpr, ONE_COLUMN: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    first_column_block = program % grid.column_blocks
    first_row_block = program // grid.column_blocks % grid.row_blocks
    bias_head = program // grid.column_blocks // grid.row_blocks % grid.bias_heads
    bias_batch = program // grid.column_blocks // grid.row_blocks // grid.bias_heads
    row_blocks = 1
    column_blocks = 1
    if ONE_ROW:
        row_blocks = tl.cdiv(problem.rows, BLOCK_M)
    if ONE_COLUMN:
        column_blocks = tl.cdiv(problem.keys, BLOCK_N)
    sums = zeros(BLOCK_M, BLOCK_N)
    seed = load_seed(seeds, O)
    for index in range(grid.batches * grid.heads * row_blocks * column_blocks):
        column_block = first_column_block + index % column_blocks
        row_block = first_row_block + index // column_blocks % row_blocks
        head = bias_head + index // column_blocks // row_blocks % grid.heads
        batch = bias_batch + index // column_blocks // row_blocks // grid.heads
        end = tl.cast(problem.keys, tl.int32)
        if O.lengths:
            end = tl.minimum(tl.maximum(tl.load(key_lengths + batch), 0), end).to(tl.int32)
        place = Place(batch, head, 0, 0, 0, problem.rows, problem.keys, end, problem.keys - problem.rows, batch)
        first = row_block * BLOCK_M
        rows = first + tl.arange(0, BLOCK_M)
        columns = column_block * BLOCK_N + tl.arange(0, BLOCK_N)
        row_at = row_index(place, problem, head, rows)
        row = load_row(buffers, d_lse, row_at, rows < problem.rows, S)
        alive = row.lse2 != float("inf")
        params = load_params(param0, param1, head, O)
        p0 = params.first
        p1 = params.second
        careful = params.careful
        if S.counts_keys:
            p1 = tl.load(log_keys + row_at, mask=rows < problem.rows, other=0.0)[:, None]
        filter = make_filter(mask, bias, head_value(slopes, head, O.alibi), problem, batch, head, O)
        seen = seen_keys(first, first + BLOCK_M - 1, columns, end, place.shift, problem.window, O)
        kv_head = head // problem.group
        q = load_head(query, batch, head, 0, first, alive, O.dim, O.block_dim, O)
        k = load_head(key, batch, kv_head, 0, column_block * BLOCK_N, seen, O.dim, O.block_dim, O)
        dots = product(q, tl.trans(k), O)
        tile = Tile(rows[:, None], columns[None, :], first, column_block * BLOCK_N)
        s, _, hidden = visible_scores(dots, tile, place, filter, True, O)
        grad = load_head(d_out, batch, head, 0, first, alive, O.v_dim, O.block_v_dim, O)
        v = load_head(value, batch, kv_head, 0, column_block * BLOCK_N, seen, O.v_dim, O.block_v_dim, O)
        d_weights = product(grad, tl.trans(v), O)
        if O.dropout:
            fall = falls(seed, place, head, tile, problem.threshold)
            d_weights = tl.where(fall, 0.0, d_weights * problem.kept_scale)
        tile_row = beside_columns(row)
        weights = weights_of(S.phi2(s, p0, p1, careful), hidden, tile_row.lse2, tile_row.lse2_low)
        sums += d_phi_of(weights, d_weights, tile_row, hidden, S, O) * S.dphi_ds(s, p0, p1, careful)
    rows = first_row_block * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = first_column_block * BLOCK_N + tl.arange(0, BLOCK_N)
    base = d_bias.pointer + bias_batch.to(tl.int64) * d_bias.batch + bias_head.to(tl.int64) * d_bias.head
    if ONE_ROW and ONE_COLUMN:
        tl.store(base, tl.sum(tl.sum(sums, 1), 0))
    elif ONE_ROW:
        tl.store(base + columns.to(tl.int64) * d_bias.column, tl.sum(sums, 0), mask=columns < problem.keys)
    elif ONE_COLUMN:
        tl.store(base + rows.to(tl.int64) * d_bias.row, tl.sum(sums, 1), mask=rows < problem.rows)
    else:
        at = rows.to(tl.int64)[:, None] * d_bias.row + columns.to(tl.int64)[None, :] * d_bias.column
        tl.store(base + at, sums, mask=(rows < problem.rows)[:, None] & (columns < problem.keys)[None, :])
