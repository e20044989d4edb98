"""What the kernels are given, and how a program finds its part of it.

Everything here is passed to kernels as it stands: tensors as a pointer with strides, plain numbers in `Problem`, what
the code is compiled for in `Options` (a compile-time value, as is the score).
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl


class Tensor4(NamedTuple):
    """A tensor of four dimensions: batch, heads, rows, columns; strides in elements, 0 where it broadcasts."""

    pointer: Any
    batch: int
    head: int
    row: int
    column: int


class HeadValues(NamedTuple):
    """One value per query head, or one for all (stride 0)."""

    pointer: Any
    head: int


class Packed(NamedTuple):
    """Packed sequences. Block b of a grid is block block_index[b] of sequence block_sequence[b]; blocks beyond the last
    sequence's have the number of sequences there."""

    cu_query: Any
    cu_key: Any
    block_sequence: Any
    block_index: Any
    sequences: int


class Problem(NamedTuple):
    blocks: int  # of queries, or of keys, whichever the kernel's programs have
    heads: int  # of the programs: query heads, or key heads
    group: int  # query heads of a key head
    rows: int  # queries (all sequences together, where packed)
    keys: int
    window: int
    scale: float
    kept_scale: float  # 1/(1 − dropout)
    threshold: int  # of dropout's words


class Options(NamedTuple):
    dim: int
    v_dim: int
    block_dim: int  # dim rounded up to a power of 2, at least 16
    block_v_dim: int
    causal: bool
    windowed: bool
    alibi: bool
    mask: bool
    bias: bool
    lengths: bool
    packed: bool
    dropout: bool
    params: int  # of the score
    one_key: bool  # every query sees at most one key
    precise: bool  # float32
    wide: bool  # strides are so large that offsets within a tile need 64 bits
    input_precision: str  # of products of float32
    interpreted: bool
    source: str  # digest of the functions that come in as values: the compiler's cache does not look into them


class Place(NamedTuple):
    """Where a program works."""

    batch: Any
    head: Any
    block: Any
    first_query: Any
    first_key: Any
    rows: Any  # of its sequence
    keys: Any
    end: Any  # keys that exist: key_lengths
    shift: Any  # query i stands at key position i + shift
    sequence: Any  # dropout's number of it


@triton.jit
def find_place(problem, key_lengths, packed, O: tl.constexpr):
    program = tl.program_id(0)
    block = program % problem.blocks
    head = program // problem.blocks % problem.heads
    batch = program // problem.blocks // problem.heads
    sequence = batch
    first_query = tl.cast(0, tl.int64)
    first_key = tl.cast(0, tl.int64)
    rows = tl.cast(problem.rows, tl.int32)
    keys = tl.cast(problem.keys, tl.int32)
    if O.packed:
        sequence = tl.load(packed.block_sequence + block)
        block = tl.load(packed.block_index + block)
        inside = sequence < packed.sequences  # else there is nothing to do
        first_query = tl.load(packed.cu_query + sequence, mask=inside, other=0)
        first_key = tl.load(packed.cu_key + sequence, mask=inside, other=0)
        rows = (tl.load(packed.cu_query + sequence + 1, mask=inside, other=0) - first_query).to(tl.int32)
        keys = (tl.load(packed.cu_key + sequence + 1, mask=inside, other=0) - first_key).to(tl.int32)
    end = keys
    if O.lengths:
        end = tl.minimum(tl.maximum(tl.load(key_lengths + batch), 0), keys).to(tl.int32)
    return Place(batch, head, block, first_query, first_key, rows, keys, end, keys - rows, sequence)


@triton.jit
def first_query_of(place, problem, BLOCK: tl.constexpr, O: tl.constexpr):
    """Of a program's block. Causal queries at the end have the most keys: they go first."""
    block = place.block
    if O.causal and not O.packed:
        block = problem.blocks - 1 - place.block
    return block * BLOCK


@triton.jit
def row_index(place, problem, head, rows, HEADS_OF_KEYS: tl.constexpr = False):
    """Of queries in buffers shaped like lse. HEADS_OF_KEYS: problem.heads are key heads."""
    heads = problem.heads
    if HEADS_OF_KEYS:
        heads = problem.heads * problem.group
    return (place.batch.to(tl.int64) * heads + head) * problem.rows + place.first_query + rows


@triton.jit
def head_base(tensor, batch, head, first):
    """Of a head's rows from `first` on."""
    at = batch.to(tl.int64) * tensor.batch + head.to(tl.int64) * tensor.head + first * tensor.row
    return tensor.pointer + at


@triton.jit
def local(indices, stride, O: tl.constexpr):
    """Offsets of a few indices from a block's first one. 32 bits save registers where they are enough."""
    if O.wide:
        return indices.to(tl.int64) * stride
    return indices * stride


@triton.jit
def block_offsets(tensor, first, ROWS: tl.constexpr, BLOCK: tl.constexpr, O: tl.constexpr):
    """Of a tile of whole rows from row `first` on."""
    rows = local(tl.arange(0, ROWS), tensor.row, O)
    columns = local(tl.arange(0, BLOCK), tensor.column, O)
    return tl.cast(first, tl.int64) * tensor.row + (rows[:, None] + columns[None, :])


@triton.jit
def load_rows(base, tensor, first, inside, DIM: tl.constexpr, BLOCK: tl.constexpr, O: tl.constexpr):
    """Rows of a head from `first` on, 0 where not inside."""
    at = base + block_offsets(tensor, first, inside.shape[0], BLOCK, O)
    if DIM == BLOCK:
        return tl.load(at, mask=inside[:, None], other=0.0)
    return tl.load(at, mask=inside[:, None] & (tl.arange(0, BLOCK) < DIM)[None, :], other=0.0)


@triton.jit
def store_rows(base, tensor, first, inside, values, DIM: tl.constexpr, BLOCK: tl.constexpr, O: tl.constexpr):
    at = base + block_offsets(tensor, first, inside.shape[0], BLOCK, O)
    tl.store(
        at, values.to(tensor.pointer.dtype.element_ty), mask=inside[:, None] & (tl.arange(0, BLOCK) < DIM)[None, :]
    )


@triton.jit
def load_head(tensor, batch, head, start, first, inside, DIM: tl.constexpr, BLOCK: tl.constexpr, O: tl.constexpr):
    """Rows from `first` on of a head whose sequence begins at row `start`."""
    return load_rows(head_base(tensor, batch, head, start), tensor, first, inside, DIM, BLOCK, O)


@triton.jit
def product(a, b, O: tl.constexpr):
    if O.interpreted:  # Triton's interpreter multiplies the bits of bfloat16
        return tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision="ieee")
    return tl.dot(a, b, input_precision=O.input_precision)


@triton.jit
def add_product(a, b, sums, O: tl.constexpr):
    """sums + a·b, a rounded to the type of b."""
    if O.interpreted:
        return sums + product(a.to(b.dtype), b, O)
    return tl.dot(a.to(b.dtype), b, sums, input_precision=O.input_precision)


@triton.jit
def zeros(ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    return tl.zeros((ROWS, COLUMNS), tl.float32)


@triton.jit
def head_value(values, head, PRESENT: tl.constexpr):
    value = 0.0
    if PRESENT:
        value = tl.load(values.pointer + head * values.head)
    return value


class Params(NamedTuple):
    """The score's parameters of a head. Where it counts keys, `second` is the logarithm of each row's number of them."""

    first: Any
    second: Any
    careful: Any  # for log2_1p


@triton.jit
def load_params(param0, param1, head, O: tl.constexpr):
    p0 = head_value(param0, head, O.params > 0)
    p1 = head_value(param1, head, O.params > 1)
    return Params(p0, p1, is_careful(p0, p1, O))


@triton.jit
def load_seed(seeds, O: tl.constexpr):
    seed = 0
    if O.dropout:
        seed = tl.load(seeds)
    return seed


@triton.jit
def is_careful(p0, p1, O: tl.constexpr):
    """Whether log2_1p must keep the digits of small arguments: always in float32; else where a large parameter (SSA's
    n) multiplies the logarithm's error up to what the rounding of the inputs leaves."""
    if O.precise or O.params == 0:
        return True
    return tl.maximum(p0, p1) > 32.0
