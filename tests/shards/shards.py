"""What tests of `ssa data` share: documents, files of every kind, and a reader of the shards."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END = "<|endoftext|>"
DOCUMENTS = [
    "The dog sees the cat.\nThe cat sees the dog.",
    "A naïve text: 中文, 👍🏽, e\u0301.\n\n  Two blanks.",
    "don't",
    *(f"Document {i} is about the number {i} and the dog." for i in range(60)),
]


def read(prefix):
    """Type and documents, as NVIDIA Megatron-LM lays them out (megatron/core/datasets/indexed_dataset.py)."""
    index = prefix.with_name(prefix.name + ".idx").read_bytes()
    assert index[:9] == b"MMIDIDX\0\0"
    assert int.from_bytes(index[9:17], "little") == 1
    dtype = {4: np.int32, 8: np.uint16}[index[17]]
    sequences, bounds = (int(n) for n in np.frombuffer(index, np.uint64, 2, 18))
    sizes = np.frombuffer(index, np.int32, sequences, 34)
    pointers = np.frombuffer(index, np.int64, sequences, 34 + 4 * sequences)
    documents = np.frombuffer(index, np.int64, bounds, 34 + 12 * sequences)
    assert len(index) == 34 + 12 * sequences + 8 * bounds
    assert documents.tolist() == list(range(sequences + 1))
    ids = prefix.with_name(prefix.name + ".bin").read_bytes()
    assert len(ids) == sizes.sum() * dtype().itemsize
    return dtype, [
        np.frombuffer(ids, dtype, size, pointer).tolist() for size, pointer in zip(sizes, pointers, strict=True)
    ]


def write_text(path, documents, end=END):
    path.write_text(f"\n{end}\n".join(documents))


def write_json(path, documents, field="text"):
    path.write_text("".join(json.dumps({"id": i, field: text}) + "\n" for i, text in enumerate(documents)))


def write_parquet(path, documents, **options):
    pq.write_table(pa.table({"id": list(range(len(documents))), "text": documents}), path, **options)


def write_zst(path, content):
    with pa.CompressedOutputStream(str(path), "zstd") as file:
        file.write(content)


def train_byte_level(path, texts):
    """A byte-level BPE of `tokenizers` with <|endoftext|>; it reads special tokens as text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<pad>", END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(path))
    tokenizer.encode_special_tokens = True
    return tokenizer


def expected(tokenizer, documents):
    return [tokenizer.encode(text).ids + [tokenizer.token_to_id(END)] for text in documents]


def tokenize(ssa, *arguments, code=0):
    return ssa("data", "tokenize", *arguments, "--tokenizer", "tokenizer.json", "--out", "out", code=code)


def files_of(folder, prefix="out"):
    """The shards that a run leaves, by their ending. Nothing else may be left."""
    assert not list(folder.glob(f".*{prefix}*")) and not (folder / f"{prefix}.parts").exists()
    return {path.name.removeprefix(prefix): path.read_bytes() for path in folder.glob(f"{prefix}*")}
