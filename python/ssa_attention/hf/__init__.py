"""Scoring functions in the models of Hugging Face: `attn_implementation="ssa"`, or any other name of `scores()`.

    import ssa_attention.hf  # registers them; transformers 5
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("gpt2")  # a softmax model
    report = ssa_attention.hf.convert(model, "ssa")  # computes what it did; n and b train from there
    model = AutoModelForCausalLM.from_pretrained("gpt2", attn_implementation="ssa")  # the same weights, n and b at their start
    model = AutoModelForCausalLM.from_pretrained("runs/books/checkpoints/step-2000")  # of `ssa train`: n and b as trained

Every attention module of such a model owns the score's parameters as `score_NAME` (SSA: score_n, score_b), raw values as
in `ssa_attention.nn.ScoreParameters`, which train, save and load like its weights, and stay float32 in a model of lower
precision. How is said by keys of the model's config, the same as in a config of `ssa train`: `parametrisation`
("softplus"), `score_share` ("head": a value a head; "layer"), `score_initial` (values in the score's order),
`score_frozen` and `score_trained` (names). Set them on the config before the model is made. `save_pretrained` keeps
them and the score's name, so that the checkpoint cannot be read as one of softmax: without this module
`from_pretrained` refuses it.

Masks, padding, caches, grouped heads, sliding windows and position biases are theirs and work as with "sdpa"; what only
eager attention can do (`output_attentions`) does not. A model that asks for something else within its attention (a soft
cap, sinks of its own) gets a ValueError that names it, and so does one of which any part computes its attention by
itself (Bloom, Siglip's pooling head).

`convert` turns a softmax model into one of another score; `Landing` and `LandingCallback` move the score's parameters to
a target during fine-tuning; `parameter_groups` keeps them out of weight decay; `save_scores` and `load_scores` carry
them beside the adapters of PEFT. docs/pretrained.md shows all of it.
"""

from .._extras import require

require("transformers", "hf")

# isort: split
from .convert import convert
from .landing import Landing, LandingCallback
from .parameters import load_scores, parameter_groups, save_scores, score_values, train_scores
from .register import register
from .report import ConversionReport

__all__ = [
    "ConversionReport",
    "Landing",
    "LandingCallback",
    "convert",
    "load_scores",
    "parameter_groups",
    "save_scores",
    "score_values",
    "train_scores",
]

register()
