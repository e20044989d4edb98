"""A sample of hugging_face_classes.py, which walks over every class of transformers: right, or refused by a line."""

import re

import pytest
import transformers
from hugging_face_classes import Outcome, examine

RIGHT = ["GPT2", "Llama", "Qwen3", "Bert", "Splinter", "LayoutLM", "MarkupLM", "Mixtral", "T5", "NllbMoe"]
REFUSED = {
    "Bloom": "BloomModel computes its attention itself",
    "BigBirdPegasus": "BigBirdPegasusBlockSparseAttention",
    "SiglipVision": r"head.attention \(MultiheadAttention\)",
    "MaskFormer": r"MaskFormerSwinSelfAttention",
    "Gemma2": "Gemma2Attention asks for softcap",
    "Longformer": "LongformerModel computes its attention itself",
}


def outcome(name: str) -> Outcome:
    return examine(getattr(transformers, f"{name}Config"), getattr(transformers, f"{name}Model"))


@pytest.mark.parametrize("name", RIGHT)
def test_right(name):
    assert outcome(name) == Outcome("right")


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    found = outcome(name)
    assert found.kind == "refused", found
    assert found.why.startswith('attn_implementation="') and re.search(REFUSED[name], found.why)
