"""`ssa import`: checkpoints of Hugging Face become runs that compute the same, and are refused where they would not."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from ssa_attention import hf  # noqa: F401  (scoring functions in their models)
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    NemotronConfig,
    NemotronForCausalLM,
    RobertaConfig,
    RobertaForMaskedLM,
)

TEXTS = ["the dog likes the cats .", "where is the dog ?", "a bird sees a fish ."]
COMMON = {"vocab_size": 400, "bos_token_id": None, "eos_token_id": None}


def gpt2(**more):
    sizes = {"n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 2}
    return GPT2LMHeadModel(GPT2Config(**sizes, **COMMON, **more))


def nemotron(**more):
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    sizes |= {"intermediate_size": 96, "max_position_embeddings": 64}
    return NemotronForCausalLM(NemotronConfig(**(sizes | COMMON | more)))


def roberta(**more):
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    sizes |= {"max_position_embeddings": 66, "type_vocab_size": 1}
    return RobertaForMaskedLM(RobertaConfig(**sizes, vocab_size=400, pad_token_id=1, **more))


@pytest.fixture
def checkpoint(ssa, babyberta_tokenizer):
    """make(model): `ssa` beside a folder "theirs" with the model and a tokenizer."""

    def make(model):
        torch.manual_seed(1)
        for parameter in model.parameters():  # every part matters
            torch.nn.init.normal_(parameter, std=0.3)
        model.save_pretrained(ssa.folder / "theirs")
        babyberta_tokenizer(ssa.folder / "theirs/tokenizer.json", TEXTS)
        return ssa

    return make


MODELS = {
    "gpt2": gpt2(),
    "gpt2-untied": gpt2(tie_word_embeddings=False, n_inner=48, activation_function="gelu"),
    "nemotron": nemotron(),
    "nemotron-tied": nemotron(tie_word_embeddings=True, attention_bias=True, mlp_bias=True, num_key_value_heads=4),
    "roberta": roberta(layer_norm_eps=1e-5),
    "nemotron-ssa": nemotron(attn_implementation="ssa", score_share="layer", score_frozen=["b"]),
    "gpt2-ssa": gpt2(attn_implementation="ssa", parametrisation="exp", score_initial=[2.0, 0.5]),
    "roberta-temperature": roberta(attn_implementation="temperature", score_trained=["tau"]),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_the_run_holds_the_same_model(checkpoint, name):
    model = MODELS[name].eval()
    ssa = checkpoint(model)
    ssa("import", "theirs", "--out", "run")
    step = ssa.folder / "run/checkpoints/step-0"
    back, info = type(model).from_pretrained(step, output_loading_info=True)
    assert not any(info.values()), info
    mine, theirs = back.state_dict(), model.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[key], theirs[key]) for key in theirs)
    assert back.config._attn_implementation == model.config._attn_implementation
    wanted = {key: weight.requires_grad for key, weight in model.named_parameters()}
    assert {key: weight.requires_grad for key, weight in back.named_parameters()} == wanted
    ids = torch.tensor([[5, 300, 17, 42]])
    with torch.no_grad():
        torch.testing.assert_close(back.eval()(input_ids=ids).logits, model(input_ids=ids).logits)
    run = json.loads((ssa.folder / "run/run.json").read_text())
    assert run["config"]["task"]["name"] == ("mlm" if "roberta" in name else "lm")


def test_it_is_evaluated_and_writes(checkpoint):
    model = MODELS["gpt2"].eval()
    ssa = checkpoint(model)
    (ssa.folder / "texts.txt").write_text(" ".join(TEXTS) + "\n")
    ssa("import", "theirs", "--out", "run")
    ssa("eval", "run", "--suite", "ppl", "--texts", "texts.txt", "--checkpoint", "0")
    assert ssa("generate", "run", "--prompt", "the dog", "--tokens", "5", "--no-end").stdout.startswith("the dog")


def test_a_run_notices_that_its_tokenizer_is_another_now(checkpoint, babyberta_tokenizer):
    ssa = checkpoint(MODELS["gpt2"])
    ssa("import", "theirs", "--out", "run/")
    assert json.loads((ssa.folder / "run/run.json").read_text())["name"] == "run"
    babyberta_tokenizer(ssa.folder / "theirs/tokenizer.json", TEXTS[:1])
    assert "task.tokenizer has other content now" in ssa("generate", "run", code=1).stderr
    done = ssa("import", "theirs", "--out", "again", "--tokenizer", "nowhere.json", code=1)
    assert "nowhere.json" in done.stderr and not (ssa.folder / "again").exists()


def test_older_files_and_narrow_types(checkpoint):
    """GPT-2's published file: names without "transformer.", and masks; here also in bfloat16."""
    model = MODELS["gpt2"].to(torch.float32)
    ssa = checkpoint(model)
    file = ssa.folder / "theirs/model.safetensors"
    old = {name.removeprefix("transformer."): w.to(torch.bfloat16) for name, w in load_file(file).items()}
    old |= {f"h.{layer}.attn.bias": torch.ones(1, 1, 64, 64) for layer in range(2)}
    old["lm_head.weight"] = old["wte.weight"].clone()
    save_file(old, file)
    ssa("import", "theirs", "--out", "run")
    back = AutoModelForCausalLM.from_pretrained(ssa.folder / "run/checkpoints/step-0").state_dict()
    assert torch.equal(back["transformer.wpe.weight"], old["wpe.weight"].float())
    old["lm_head.weight"] += 1
    save_file(old, file)
    done = ssa("import", "theirs", "--out", "again", code=1)
    assert '"lm_head.weight" differs from "transformer.wte.weight"' in done.stderr
    assert not (ssa.folder / "again").exists()


def change_config(folder, **values):
    file = folder / "theirs/config.json"
    config = json.loads(file.read_text()) | values
    file.write_text(json.dumps({key: value for key, value in config.items() if value != "gone"}))


def change_weights(folder, change):
    file = folder / "theirs/model.safetensors"
    weights = load_file(file)
    change(weights)
    save_file(weights, file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: change_config(f, model_type="llama"), 'config.json: model_type = "llama" is not supported, only gpt2'),
        (lambda f: change_config(f, activation_function="relu"), 'activation_function = "relu" is not supported, only gelu'),
        (lambda f: change_config(f, n_layer="two"), 'n_layer = "two" is of the wrong type'),
        (lambda f: change_config(f, n_head="gone"), "config.json: n_head is missing"),
        (lambda f: change_config(f, n_head=3), "model.width = 32 is not a multiple of model.heads = 3"),
        (lambda f: change_config(f, attn_pdrop=0.3), "attn_pdrop = 0.3, but resid_pdrop = 0.1: only the same dropout"),
        (lambda f: change_config(f, scale_attn_weights=False), "scale_attn_weights = false is not supported, only true"),
        (lambda f: change_config(f, attn_implementation="ssa"), 'the model\'s "transformer.h.0.attn.score_b" is not in it'),
        (lambda f: change_config(f, attn_implementation="ssa", score_share=2), "score_share = 2 is of the wrong type"),
        (lambda f: change_config(f, attn_implementation="ssa", score_initial=[1.5]), "theirs/config.json: model.score_initial"),
        (lambda f: (f / "theirs/config.json").unlink(), "theirs/config.json: is missing"),
        (lambda f: (f / "theirs/model.safetensors").unlink(), "theirs/model.safetensors: no such file"),
        (lambda f: change_weights(f, lambda w: w.pop("transformer.ln_f.bias")), '"transformer.ln_f.bias" is not in it'),
        (lambda f: change_weights(f, lambda w: w.update(more=torch.ones(3))), 'the model has no weight "more"'),
        (lambda f: change_config(f, architectures=["LlamaForCausalLM"]), 'architectures has "LlamaForCausalLM", which is no GPT2'),
        (lambda f: change_weights(f, lambda w: w["transformer.ln_f.bias"].fill_(torch.nan)), '"transformer.ln_f.bias" holds numbers that are not finite'),
        (lambda f: change_weights(f, lambda w: w.update({"ln_f.bias": torch.ones(32)})), 'has "transformer.ln_f.bias" with and without "transformer."'),
        (lambda f: (f / "theirs/model.safetensors").rename(f / "theirs/model.safetensors.index.json"), "index.json: the weights are in several files"),
        (lambda f: (f / "theirs/tokenizer.json").write_text("{}"), "theirs/tokenizer.json"),
        (
            lambda f: change_weights(f, lambda w: w.update({"transformer.ln_f.bias": torch.ones(31)})),
            '"transformer.ln_f.bias" has shape (31) and type Float, the model\'s has shape (32)',
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(checkpoint, change, message):
    ssa = checkpoint(gpt2())
    change(ssa.folder)
    assert message in ssa("import", "theirs", "--out", "run", code=1).stderr
    assert not (ssa.folder / "run").exists()
