"""A tile of (query, key) pairs: which pairs are visible, what their scores are, which weights dropout takes."""

from typing import Any, NamedTuple

import triton
import triton.language as tl

from .problem import local


class Tile(NamedTuple):
    """Which pairs. `rows` and `columns` are int32 indices within the sequence that broadcast to the tile's shape:
    (rows, 1) and (1, columns), or the other way round where a kernel works on transposed tiles."""

    rows: Any
    columns: Any
    first_row: Any
    first_column: Any


class Range(NamedTuple):
    """Blocks [first, limit) of keys (or of queries) that a block of the other kind meets; only outside of
    [full_first, full_limit) do the positions of single pairs matter."""

    first: Any
    full_first: Any
    full_limit: Any
    limit: Any


@triton.jit
def block_range(start, limit, full_start, full_limit, BLOCK: tl.constexpr):
    """[start, limit): what one of the others sees; [full_start, full_limit): what all of them see."""
    first = tl.maximum(start, 0) // BLOCK * BLOCK
    b = tl.maximum(tl.minimum(full_limit, limit) // BLOCK * BLOCK, first)
    a = tl.minimum(tl.maximum((full_start + BLOCK - 1) // BLOCK * BLOCK, first), b)
    return Range(first, a, b, limit)


@triton.jit
def key_range(first, last, end, shift, window, BLOCK: tl.constexpr, O: tl.constexpr):
    """Keys that queries first … last see by position (src/kernels/band.h)."""
    start = 0
    limit = end
    full_start = 0
    full_limit = end
    if O.causal:
        limit = tl.minimum(limit, last + shift + 1)
        full_limit = tl.minimum(full_limit, first + shift + 1)
    if O.windowed:
        start = first + shift - window + 1
        full_start = last + shift - window + 1
        if not O.causal:
            limit = tl.minimum(limit, last + shift + window)
            full_limit = tl.minimum(full_limit, first + shift + window)
    return block_range(start, limit, full_start, full_limit, BLOCK)


@triton.jit
def row_range(first, last, rows, end, shift, window, BLOCK: tl.constexpr, O: tl.constexpr):
    """Queries that see keys first … last by position."""
    start = 0
    limit = tl.where(first < end, rows, 0)
    full_start = 0
    full_limit = rows  # what keys beyond the end get is thrown away
    if O.causal:
        start = first - shift
        full_start = last - shift
    if O.windowed:
        limit = tl.minimum(limit, last - shift + window)
        full_limit = tl.minimum(full_limit, first - shift + window)
        if not O.causal:
            start = first - shift - window + 1
            full_start = last - shift - window + 1
    # The last rows of a block may lie beyond the sequence: they are no visible ones, whatever their positions say.
    full_limit = tl.where(full_limit >= rows, (rows + BLOCK - 1) // BLOCK * BLOCK, full_limit)
    found = block_range(start, (limit + BLOCK - 1) // BLOCK * BLOCK, full_start, full_limit, BLOCK)
    return Range(found.first, found.full_first, found.full_limit, limit)


@triton.jit
def seen_keys(first, last, columns, end, shift, window, O: tl.constexpr):
    """Which of these keys one of the queries first … last sees by position. Others are not even loaded."""
    seen = columns < end
    if O.causal:
        seen = seen & (columns <= last + shift)
    if O.windowed:
        seen = seen & (columns > first + shift - window)
        if not O.causal:
            seen = seen & (columns < last + shift + window)
    return seen


class Filter(NamedTuple):
    """What decides about pairs of one head."""

    mask: Any  # pointer to the head's rows
    mask_row: Any
    mask_column: Any
    bias: Any
    bias_row: Any
    bias_column: Any
    slope: Any
    scale: Any
    window: Any


@triton.jit
def make_filter(mask, bias, slope, problem, batch, head, O: tl.constexpr):
    mask_at = 0
    mask_row = 0
    mask_column = 0
    bias_at = 0
    bias_row = 0
    bias_column = 0
    if O.mask:
        mask_at = mask.pointer + batch.to(tl.int64) * mask.batch + head.to(tl.int64) * mask.head
        mask_row = mask.row
        mask_column = mask.column
    if O.bias:
        bias_at = bias.pointer + batch.to(tl.int64) * bias.batch + head.to(tl.int64) * bias.head
        bias_row = bias.row
        bias_column = bias.column
    return Filter(mask_at, mask_row, mask_column, bias_at, bias_row, bias_column, slope, problem.scale, problem.window)


@triton.jit
def hidden_by_position(rows, columns, end, shift, window, O: tl.constexpr):
    position = rows + shift
    hidden = (columns >= end) | (rows < 0)  # in the shape of the tile
    if O.causal:
        hidden = hidden | (columns > position)
    if O.windowed:
        hidden = hidden | (tl.abs(position - columns) >= window)
    return hidden


@triton.jit
def load_pairs(base, stride_row, stride_column, tile, place, O: tl.constexpr):
    """The tile of a mask or bias, 0 beyond the sequence."""
    at = tl.cast(tile.first_row, tl.int64) * stride_row + tl.cast(tile.first_column, tl.int64) * stride_column
    rows = local(tile.rows - tile.first_row, stride_row, O)
    columns = local(tile.columns - tile.first_column, stride_column, O)
    inside = (tile.rows < place.rows) & (tile.columns < place.keys)
    return tl.load(base + at + (rows + columns), mask=inside, other=0)


@triton.jit
def hidden_by_structure(tile, place, filter, EDGE: tl.constexpr, O: tl.constexpr):
    """What position, mask and a bias of −inf exclude. Without EDGE, position excludes nothing here."""
    hidden = (tile.rows < 0) | (tile.columns < 0)  # nothing, in the shape of the tile
    if EDGE:
        hidden = hidden_by_position(tile.rows, tile.columns, place.end, place.shift, filter.window, O)
    if O.mask:
        hidden = hidden | (load_pairs(filter.mask, filter.mask_row, filter.mask_column, tile, place, O) == 0)
    if O.bias:
        added = load_pairs(filter.bias, filter.bias_row, filter.bias_column, tile, place, O)
        hidden = hidden | (added == -float("inf"))
    return hidden


@triton.jit
def visible_scores(dots, tile, place, filter, EDGE: tl.constexpr, O: tl.constexpr):
    """Scores, 0 where hidden; what structure hides; what is hidden. A score of −inf is hidden too, though its key
    counts as one that the row sees."""
    s = dots * filter.scale
    if O.alibi:
        s = s - filter.slope * tl.abs(tile.rows + place.shift - tile.columns).to(tl.float32)
    if O.bias:
        s = s + load_pairs(filter.bias, filter.bias_row, filter.bias_column, tile, place, O)
    structure = hidden_by_structure(tile, place, filter, EDGE, O)
    hidden = structure | (s == -float("inf"))
    return tl.where(hidden, 0.0, s), structure, hidden


@triton.jit
def falls(seed, place, head, tile, threshold):
    """Which weights dropout takes, by the words of include/ssa/philox.h: column 64·g + 16·w + l has word w of the call
    with counter (sequence, head, row, 16·g + l)."""
    rows, columns = tl.broadcast(tile.rows, tile.columns)
    lanes = 16 * (columns // 64) + columns % 16
    nothing = lanes * 0
    word0, word1, word2, word3 = tl.philox(seed, nothing + place.sequence, nothing + head, rows, lanes)
    which = columns // 16 % 4
    word = tl.where(which == 0, word0, tl.where(which == 1, word1, tl.where(which == 2, word2, word3)))
    return word.to(tl.int64) < threshold
