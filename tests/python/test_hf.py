"""`ssa_attention.hf`: Hugging Face models with other scoring functions, against their own eager attention."""

import json
import subprocess
import sys

import pytest
import torch
from small_hugging_face import HEADS, SMALL, VOCABULARY
from ssa_attention import hf, scores
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    AutoConfig,
    AutoModelForCausalLM,
    BertConfig,
    BertForMaskedLM,
    BloomConfig,
    BloomForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    NemotronConfig,
    NemotronForCausalLM,
    RobertaConfig,
    RobertaForMaskedLM,
)
from transformers.masking_utils import eager_mask

N, B = 1.75, 0.625  # exact in float32
GROUPED = SMALL | {"num_key_value_heads": 2}
GPT2 = {
    "vocab_size": VOCABULARY,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": HEADS,
    "n_positions": 64,
    "initializer_range": 0.5,
}
MODELS = {
    "gpt2": (GPT2LMHeadModel, GPT2Config, GPT2),
    "nemotron": (NemotronForCausalLM, NemotronConfig, GROUPED),
    "llama": (LlamaForCausalLM, LlamaConfig, GROUPED),
    "mistral with a window": (MistralForCausalLM, MistralConfig, GROUPED | {"sliding_window": 5}),
    "roberta": (RobertaForMaskedLM, RobertaConfig, SMALL),
    "bert": (BertForMaskedLM, BertConfig, SMALL),
}
NO_DROPOUT = dict.fromkeys(
    ("hidden_dropout_prob", "attention_probs_dropout_prob", "attn_pdrop", "resid_pdrop", "embd_pdrop"), 0.0
)


WEIGHTS = {
    "ssa": lambda s: (1 + B * s.abs()) ** (torch.sign(s) * N),  # arXiv 2508.14685
    "softmax": lambda s: (s - s.amax(-1, keepdim=True)).exp(),
}


def eager(weights_of):
    """As their eager attention, but in the model's own precision, and 0 in rows that see no key."""

    def attend(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **_):
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
        weights = weights_of(query @ key.transpose(2, 3) * scaling)
        if attention_mask is not None:
            weights = weights.masked_fill(attention_mask < 0, 0)
        weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-300)
        return (weights @ value).transpose(1, 2).contiguous(), weights

    return attend


@pytest.fixture(scope="module", autouse=True)
def _eager_attention():
    for name, weights_of in WEIGHTS.items():
        AttentionInterface.register(f"eager-{name}", eager(weights_of))
        AttentionMaskInterface.register(f"eager-{name}", eager_mask)


def made(name, attention, **more):
    model_class, config_class, values = MODELS[name]
    config = config_class(**values, **NO_DROPOUT, **more, attn_implementation=attention)
    torch.manual_seed(3)
    return model_class(config)


def padded():
    """Ids and masks: whole sequences, right padding, left padding."""
    ids = torch.randint(1, VOCABULARY, (3, 12), generator=torch.Generator().manual_seed(4))
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    mask[2, :4] = 0
    return ids, mask


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("score", WEIGHTS)
def test_logits_and_gradients_are_those_of_eager_attention(name, score, masked):
    """In float64, where both are right to the last digits; the kernels in float32 have their own tests."""
    ids, mask = padded()
    results = []
    theirs = made(name, f"eager-{score}").double().train()
    more = {"score_initial": [N, B], "parametrisation": "raw"} if score == "ssa" else {}
    model = made(name, score, **more).double().train()
    model.load_state_dict(theirs.state_dict(), strict=False)
    for one in (theirs, model):
        logits = one(input_ids=ids, attention_mask=mask if masked else None).logits[mask.bool() if masked else ...]
        (logits * torch.linspace(-1, 1, logits.numel(), dtype=torch.float64).view_as(logits)).sum().backward()
        results.append((logits.detach(), {key: weight.grad for key, weight in one.named_parameters()}))
    (expected, their_gradients), (logits, gradients) = results
    assert (logits - expected).abs().max() < 1e-9 * expected.abs().max()
    for key, gradient in their_gradients.items():
        assert (gradients[key] - gradient).abs().max() <= 1e-9 * gradient.abs().max() + 1e-12, key
    own = [key for key in gradients if key not in their_gradients]
    assert len(own) == (4 if score == "ssa" else 0)
    assert all(gradients[key].shape == (HEADS,) and gradients[key].abs().min() > 0 for key in own)


@pytest.mark.parametrize("score", [name for name in scores() if name != "cosformer"])
def test_every_score_trains_in_a_model(score):
    model = made("nemotron", score)
    assert hf.score_values(model).keys() == {"model.layers.0.self_attn", "model.layers.1.self_attn"}
    ids, mask = padded()
    loss = model(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).loss
    loss.backward()
    trained = [param.name for param in scores()[score].params if param.trained]
    for layer in model.model.layers:
        for name in trained:
            assert getattr(layer.self_attn, f"score_{name}").grad.abs().max() > 0
    with torch.no_grad():
        for weight in model.parameters():
            if weight.grad is not None:
                weight -= 1e-3 * weight.grad
    assert model(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).loss < loss


def test_the_config_says_what_is_trained_and_shared():
    model = made("llama", "ssa", score_share="layer", score_frozen=["b"], score_initial=[2.0, 0.25])
    attention = model.model.layers[1].self_attn
    assert attention.score_n.shape == attention.score_b.shape == (1,)
    assert attention.score_n.requires_grad and not attention.score_b.requires_grad
    values = hf.score_values(model)["model.layers.1.self_attn"]
    torch.testing.assert_close(values["n"], torch.tensor([2.0]))
    torch.testing.assert_close(values["b"], torch.tensor([0.25]))


def test_checkpoints_keep_the_score_and_its_values(tmp_path):
    model = made("nemotron", "ssa", score_frozen=["b"])
    with torch.no_grad():
        for parameter in [p for name, p in model.named_parameters() if "score_" in name]:
            parameter += torch.rand(parameter.shape)
    model.save_pretrained(tmp_path)
    read = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert read.config._attn_implementation == "ssa"
    for name, weight in model.state_dict().items():
        assert torch.equal(read.state_dict()[name], weight), name
    assert not read.model.layers[0].self_attn.score_b.requires_grad
    ids, mask = padded()
    torch.testing.assert_close(read.eval()(ids, mask).logits, model.eval()(ids, mask).logits, rtol=0, atol=0)


def test_without_this_module_they_are_refused(tmp_path):
    made("nemotron", "ssa").save_pretrained(tmp_path)
    program = "import sys, transformers; transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, capture_output=True, text=True)
    assert done.returncode != 0 and 'attn_implementation="ssa"' in done.stderr


def test_a_softmax_checkpoint_begins_with_the_initial_values(tmp_path):
    theirs = made("gpt2", "eager")
    theirs.save_pretrained(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path)
    config.score_initial = [N, B]
    read, report = AutoModelForCausalLM.from_pretrained(
        tmp_path, config=config, attn_implementation="ssa", output_loading_info=True
    )
    places = [f"transformer.h.{layer}.attn.score_{name}" for layer in (0, 1) for name in "nb"]
    assert sorted(report["missing_keys"]) == sorted(places)
    for values in hf.score_values(read).values():
        torch.testing.assert_close(values["n"], torch.full((HEADS,), N))
        torch.testing.assert_close(values["b"], torch.full((HEADS,), B))
    for name, weight in theirs.state_dict().items():
        assert torch.equal(read.state_dict()[name], weight), name


def test_a_model_can_be_switched(tmp_path):
    model = made("llama", "sdpa").eval()
    names_before = list(model.state_dict())
    ids, mask = padded()
    before = model(ids, mask).logits
    model.set_attn_implementation("ssa")
    after = model(ids, mask).logits
    assert (after - before).abs().max() > 0.01 and hf.score_values(model)
    model.set_attn_implementation("sink")
    names = {name.rpartition(".")[2] for name, _ in model.named_parameters() if "score_" in name}
    assert names == {"score_z"} and model(ids, mask).logits.isfinite().all()
    model.set_attn_implementation("sdpa")
    torch.testing.assert_close(model(ids, mask).logits, before)
    model.save_pretrained(tmp_path)  # softmax again, for everybody
    assert list(model.state_dict()) == names_before
    assert "attn_implementation" not in json.loads((tmp_path / "config.json").read_text())


def test_bfloat16_models_keep_the_parameters_in_float32(tmp_path):
    made("nemotron", "ssa").save_pretrained(tmp_path)
    read = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert read.model.layers[0].self_attn.score_n.dtype == torch.float32
    assert read.model.layers[0].self_attn.q_proj.weight.dtype == torch.bfloat16
    ids, mask = padded()
    expected = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)(ids, mask).logits[mask.bool()]
    found = read(ids, mask).logits[mask.bool()].float()
    assert (found - expected).norm() < 0.03 * expected.norm()  # bfloat16 keeps 8 bits


@pytest.mark.parametrize("name", ["gpt2", "nemotron", "mistral with a window"])
def test_text_is_the_same_with_and_without_the_cache_and_in_a_padded_batch(name):
    model = made(name, "ssa").eval()
    ids = torch.randint(1, VOCABULARY, (1, 9), generator=torch.Generator().manual_seed(5))
    flags = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    alone = model.generate(ids, attention_mask=torch.ones_like(ids), **flags)
    assert torch.equal(alone, model.generate(ids, attention_mask=torch.ones_like(ids), use_cache=False, **flags))
    assert torch.equal(
        alone, model.generate(ids, attention_mask=torch.ones_like(ids), cache_implementation="static", **flags)
    )
    longer = torch.cat([torch.zeros(1, 4, dtype=torch.long), ids], 1)
    both = torch.cat([longer, torch.randint(1, VOCABULARY, longer.shape)])
    mask = torch.ones_like(both)
    mask[0, :4] = 0
    assert torch.equal(alone[0], model.generate(both, attention_mask=mask, **flags)[0, 4:])


def test_additive_masks_exclude():
    """A 4-dimensional mask of the user reaches attention as it is: 0 and the least number of its type."""
    model = made("llama", "ssa").eval()
    ids, _ = padded()
    causal = torch.full((12, 12), torch.finfo(torch.float32).min).triu(1).expand(3, 1, 12, 12)
    torch.testing.assert_close(model(ids, causal).logits, model(ids).logits)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"score_initial": [1.5]}, r"config.score_initial has 1 value, score 'ssa' has the parameters \['n', 'b'\]"),
        ({"score_initial": [0.5, 1.0]}, r"initial n must be > 1 \(softplus\), got 0.5"),
        ({"score_frozen": ["tau"]}, r"config.score_frozen names 'tau', score 'ssa' has the parameters \['n', 'b'\]"),
        ({"score_share": "model"}, 'config.score_share must be "head" or "layer", got \'model\''),
        ({"parametrisation": "square"}, 'parametrisation must be "softplus", "exp" or "raw", got \'square\''),
    ],
)
def test_bad_configs_are_refused(more, message):
    with pytest.raises(ValueError, match=message):
        made("llama", "ssa", **more)


def test_what_attention_cannot_do_is_refused():
    config = Gemma2Config(**GROUPED, head_dim=8, attn_logit_softcapping=30.0, attn_implementation="ssa")
    with pytest.raises(ValueError, match='attn_implementation="ssa": Gemma2Attention asks for softcap'):
        Gemma2ForCausalLM(config)(torch.ones(1, 4, dtype=torch.long))
    model = made("llama", "sdpa")
    model.config._attn_implementation = "ssa"
    with pytest.raises(ValueError, match="has no parameters of ssa: .* model.set_attn_implementation"):
        model(torch.ones(1, 4, dtype=torch.long))


def test_models_that_would_go_on_with_softmax_are_refused():
    config = {"vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 2, "n_head": HEADS}
    message = 'attn_implementation="ssa": BloomForCausalLM computes its attention itself'
    with pytest.raises(ValueError, match=message.replace("BloomForCausalLM", "BloomModel")):
        BloomForCausalLM(BloomConfig(**config, attn_implementation="ssa"))
    with pytest.raises(ValueError, match=message):
        BloomForCausalLM(BloomConfig(**config)).set_attn_implementation("ssa")


def test_configs_on_disk_say_how(tmp_path):
    made("roberta", "ssa", score_share="layer").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["attn_implementation"], config["score_share"]) == ("ssa", "layer")
