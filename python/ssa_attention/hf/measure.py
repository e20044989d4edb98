"""What a model makes of texts: perplexity where it predicts the next token, its embeddings elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from transformers import PreTrainedModel


@dataclass(frozen=True)
class TextBatch:
    """The inputs of one text, a batch of 1."""

    inputs: dict[str, Tensor]

    @property
    def tokens(self) -> int:
        return next(iter(self.inputs.values())).shape[1]


def as_batches(
    texts: Iterable[str] | Iterable[Tensor] | Iterable[Mapping[str, Tensor]] | None,
    tokenizer,
    length: int,
    model: PreTrainedModel,
) -> list[TextBatch]:
    """Models of encoder and decoder read a text on both sides, unless a mapping says what the decoder reads. Raises ValueError for strings without a tokenizer, for what is neither text nor ids, and for nothing at all."""
    if texts is None:
        return []
    if length < 2:
        raise ValueError(f"length must be at least 2, got {length}")
    single = isinstance(texts, (str, Tensor, Mapping))
    if single:
        raise ValueError("texts must be several: a list of strings, of ids or of the model's inputs")
    batches = []
    for index, text in enumerate(texts):
        if isinstance(text, str):
            if tokenizer is None:
                raise ValueError("texts are strings: give the model's tokenizer")
            text = tokenizer(text, return_tensors="pt", truncation=True, max_length=length)
            text = {name: text[name] for name in ("input_ids", "attention_mask", "token_type_ids") if name in text}
        elif isinstance(text, Tensor):
            text = {"input_ids": text.reshape(1, -1) if text.ndim < 2 else text}
        if not isinstance(text, Mapping) or not text:
            raise ValueError(f"texts[{index}] is neither a string nor ids nor a mapping of the model's inputs")
        cut = {name: (value[:, :length] if value.ndim == 2 else value).to(model.device) for name, value in text.items()}
        if model.config.is_encoder_decoder and "input_ids" in cut:
            cut.setdefault("decoder_input_ids", cut["input_ids"])
        if next(iter(cut.values())).shape[1] >= 2:  # of one token nothing can be said
            batches.append(TextBatch(cut))
    if not batches:
        raise ValueError("texts has none of at least 2 tokens")
    return batches


@dataclass
class Measured:
    """Sums over all texts, and what is needed to compare two models on them."""

    measure: str
    """"perplexity", "embedding similarity", or "" without texts."""
    loss: float = 0.0
    tokens: int = 0
    logits: Tensor | None = None
    """Of the first text."""
    embeddings: list[Tensor] = field(default_factory=list)

    @property
    def value(self) -> float | None:
        """Perplexity; 1, the similarity with itself, for embeddings."""
        if not self.measure:
            return None
        return math.exp(self.loss / self.tokens) if self.measure == "perplexity" else 1.0

    def compared_with(self, first: Measured) -> float | None:
        """The value after: perplexity, or the mean cosine of the embeddings with those before."""
        if self.measure != "embedding similarity":
            return self.value
        pairs = zip(self.embeddings, first.embeddings, strict=True)
        cosines = [torch.nn.functional.cosine_similarity(mine, theirs, dim=0).item() for mine, theirs in pairs]
        return sum(cosines) / len(cosines)

    def change(self, first: Measured) -> float | None:
        """The mean |change| of a logit of the first text."""
        if self.logits is None or first.logits is None:
            return None
        return (self.logits - first.logits).abs().mean().item()


def measured(model: PreTrainedModel, batches: list[TextBatch]) -> Measured:
    """Of a model in evaluation mode, without gradients."""
    if not batches:
        return Measured("")
    predicts = model.can_generate() and not model.config.is_encoder_decoder
    found = Measured("perplexity" if predicts else "embedding similarity")
    for batch in batches:
        if predicts:
            logits = model(**batch.inputs).logits[0].float()
            loss = torch.nn.functional.cross_entropy(logits[:-1], batch.inputs["input_ids"][0, 1:], reduction="sum")
            found.loss += loss.item()
            found.tokens += logits.shape[0] - 1
            found.logits = logits if found.logits is None else found.logits
        else:
            found.embeddings.append(_embedding(model, batch))
    return found


def _embedding(model: PreTrainedModel, batch: TextBatch) -> Tensor:
    """The mean of the last hidden state over the tokens."""
    output = model.base_model(**batch.inputs)
    hidden = getattr(output, "last_hidden_state", None)
    if hidden is None:  # models without a base of their own (T5)
        output = model(**batch.inputs, output_hidden_states=True)
        states = getattr(output, "decoder_hidden_states", None) or getattr(output, "hidden_states", None)
        if not states:
            raise ValueError(f"{type(model).__name__} returns no hidden states to compare: convert it without texts")
        hidden = states[-1]
    return hidden[0].float().mean(0)
