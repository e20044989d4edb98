"""The C++ encoder against Hugging Face's RobertaForMaskedLM and BertForMaskedLM on the same weights; its checkpoints
there."""

import parity
import pytest
import torch
from eager import check_error
from parity import (
    cast,
    check_checkpoint,
    check_parity,
    initial_weights,
    moved_weights,
    run_program,
    token_loss,
)
from scored import forward_of
from transformers import (
    BertConfig,
    BertForMaskedLM,
    RobertaConfig,
    RobertaForMaskedLM,
)

PAD, VOCABULARY, LONGEST = 1, 128, 32
LENGTHS = [9, 32, 3, 17]


def make_config(preset: str = "babyberta-tiny", **model) -> dict:
    return parity.make_config(preset, **model)


def make_data(generator: torch.Generator) -> dict:
    """Padded sentences; about a third of their tokens are replaced by others and are to be predicted."""
    inputs = torch.full((len(LENGTHS), LONGEST), PAD)
    targets = torch.full_like(inputs, -100)
    for row, length in enumerate(LENGTHS):
        words = torch.randint(2, VOCABULARY, (length,), generator=generator)
        chosen = torch.rand(length, generator=generator) < 0.3
        chosen[0] = True
        targets[row, :length] = words.masked_fill(~chosen, -100)
        inputs[row, :length] = torch.where(chosen, torch.tensor(0), words)
    return {"inputs": inputs, "targets": targets}


def roberta(attention: str = "eager") -> RobertaForMaskedLM:
    """babyberta-tiny as Hugging Face configures it."""
    model = RobertaForMaskedLM(
        RobertaConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=128,
            max_position_embeddings=LONGEST + PAD + 1,
            type_vocab_size=2,
            pad_token_id=PAD,
            layer_norm_eps=1e-5,
            attn_implementation=attention,
        )
    )
    return model.eval()


def hugging_face(config: dict):
    """forward(weights, inputs) through transformers' RobertaForMaskedLM."""
    score = config["model"]["score"]
    model = roberta("eager" if score == "softmax" else "scored-encoder")

    def inputs_of(inputs):
        return {"input_ids": inputs, "attention_mask": (inputs != PAD).long()}

    return forward_of(model, score, "roberta.encoder.layer.{}.attention.self", inputs_of)


def bert() -> BertForMaskedLM:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
    sizes |= {"vocab_size": VOCABULARY, "max_position_embeddings": LONGEST, "type_vocab_size": 2, "hidden_act": "relu"}
    return BertForMaskedLM(
        BertConfig(**sizes, pad_token_id=PAD, layer_norm_eps=1e-5, attn_implementation="eager")
    ).eval()


def bert_config() -> dict:
    """Its positions count from 0 whatever the padding's id is, and its head has the blocks' activation."""
    return make_config(preset="bert-tiny", pad_id=PAD, activation="relu")


def bert_inputs(data):
    return {"input_ids": data["inputs"], "attention_mask": (data["inputs"] != PAD).long()}


def test_bert_has_hugging_faces_names_and_shapes(tmp_path):
    theirs = {name: tuple(p.shape) for name, p in bert().named_parameters()}
    assert {name: tuple(w.shape) for name, w in initial_weights(tmp_path, bert_config()).items()} == theirs


def test_bert_equals_hugging_face(tmp_path):
    model = bert()

    def forward(weights, inputs):
        model.to(next(iter(weights.values())).dtype)
        return torch.func.functional_call(
            model, weights, kwargs=bert_inputs({"inputs": inputs}), tie_weights=True
        ).logits

    check_parity(tmp_path, forward, token_loss, make_data, bert_config())


def test_a_checkpoint_of_bert_loads_in_hugging_face(tmp_path):
    model = check_checkpoint(tmp_path, bert_config(), make_data, BertForMaskedLM, bert_inputs)
    assert (model.config.hidden_act, model.config.pad_token_id) == ("relu", PAD)


def test_names_and_shapes_are_hugging_faces(tmp_path):
    theirs = {name: tuple(p.shape) for name, p in roberta().named_parameters()}
    for score in ("softmax", "ssa"):
        weights = initial_weights(tmp_path, make_config(score=score))
        ours = {name: tuple(w.shape) for name, w in weights.items() if ".score_" not in name}
        assert ours == theirs
    extra = {f"roberta.encoder.layer.{i}.attention.self.score_{name}" for i in range(2) for name in "nb"}
    assert extra == weights.keys() - ours.keys()


@pytest.mark.parametrize("score", ["softmax", "ssa"])
def test_it_equals_hugging_face(tmp_path, score):
    config = make_config(score=score)
    check_parity(tmp_path, hugging_face(config), token_loss, make_data, config)


def test_packed_sentences_equal_hugging_faces_padded_ones(tmp_path):
    config = make_config()
    generator = torch.Generator().manual_seed(1)
    weights = moved_weights(config, initial_weights(tmp_path, config), generator)
    inputs = make_data(generator)["inputs"]
    truth, eager = (
        hugging_face(config)(cast(weights, dtype), inputs)[inputs != PAD] for dtype in (torch.float64, torch.float32)
    )
    cu = torch.tensor([0, *LENGTHS]).cumsum(0)
    data = {"inputs": inputs[inputs != PAD], "targets": torch.zeros(sum(LENGTHS), dtype=torch.long), "cu_lengths": cu}
    ours = run_program(tmp_path, config, "float32", cast(weights, torch.float32) | data)
    check_error("logits", ours["output"], eager.detach(), truth.detach(), 2)


@pytest.mark.parametrize("score", ["softmax", "ssa", "sparsemax"])
def test_a_checkpoint_loads_in_hugging_face(tmp_path, score):
    def inputs_of(data):
        return {"input_ids": data["inputs"], "attention_mask": (data["inputs"] != PAD).long()}

    model = check_checkpoint(tmp_path, make_config(score=score), make_data, RobertaForMaskedLM, inputs_of)
    # The configuration is the model's, dropout in training included.
    assert (model.config.hidden_dropout_prob, model.config.attention_probs_dropout_prob) == (0.1, 0.1)
    assert (model.config.hidden_act, model.config.layer_norm_eps) == ("gelu", 1e-5)
