"""Small models of Hugging Face for the tests of conversion and landing, and the pretrained ones where installed."""

import importlib.util
from pathlib import Path

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

VOCABULARY, HEADS = 50, 4
SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "initializer_range": 0.5,
    "pad_token_id": 0,
}


def llama(**more):
    torch.manual_seed(3)
    return LlamaForCausalLM(LlamaConfig(**SMALL, num_key_value_heads=2, **more))


def bert(**more):
    torch.manual_seed(3)
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return BertForMaskedLM(BertConfig(**SMALL, **dropout, **more))


def t5(**more):
    torch.manual_seed(3)
    sizes = {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": HEADS}
    return T5ForConditionalGeneration(T5Config(**sizes, initializer_factor=2.0, dropout_rate=0.0, **more))


def texts(count=3, length=20):
    generator = torch.Generator().manual_seed(4)
    return [torch.randint(1, VOCABULARY, (length,), generator=generator) for _ in range(count)]


def folder_of(package: str) -> Path:
    """Where an installed package lies; skips the test where it is not."""
    found = importlib.util.find_spec(package)
    if found is None:
        pytest.skip(f"the package {package} with pretrained weights is not installed (CONTRIBUTING.md)")
    return Path(found.origin).parent
