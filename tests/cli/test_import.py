"""`ssa import`: checkpoints of Hugging Face become runs that compute the same, and are refused where they would not."""

import copy
import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from ssa_attention import hf  # its import registers the scoring functions
from tokenizers import Tokenizer
from transformers import (
    AutoModelForCausalLM,
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaModel,
    MistralConfig,
    MistralForCausalLM,
    NemotronConfig,
    NemotronForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
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


LLAMA = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
    "max_position_embeddings": 64, "tie_word_embeddings": False,
}  # fmt: skip


def llama(**more):
    return LlamaForCausalLM(LlamaConfig(**(LLAMA | {"head_dim": 8} | COMMON | more)))


def rope(kind, **more):
    return {"rope_type": kind, "rope_theta": 5000.0} | more


def mistral(**more):
    return MistralForCausalLM(MistralConfig(**(LLAMA | {"head_dim": 8, "sliding_window": 5} | COMMON | more)))


def qwen2(**more):
    return Qwen2ForCausalLM(Qwen2Config(**(LLAMA | COMMON | more)))


def qwen3(**more):
    return Qwen3ForCausalLM(Qwen3Config(**(LLAMA | {"head_dim": 16} | COMMON | more)))


def bert_config(**more):
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    return BertConfig(**(sizes | {"max_position_embeddings": 64, "type_vocab_size": 2, "vocab_size": 400} | more))


def roberta(**more):
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    sizes |= {"max_position_embeddings": 66, "type_vocab_size": 1}
    return RobertaForMaskedLM(RobertaConfig(**sizes, vocab_size=400, pad_token_id=1, **more))


@pytest.fixture
def checkpoint(ssa, babyberta_tokenizer):
    """make(model): `ssa` beside a folder "theirs" with the model and a tokenizer. query_scale 12: scores of up to 20, as
    pretrained models have them."""

    def make(model, query_scale=1.0):
        torch.manual_seed(1)
        for name, parameter in model.named_parameters():  # every part matters
            torch.nn.init.normal_(parameter, std=0.3)
            if ".q_proj." in name or ".query." in name:
                parameter.data *= query_scale
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
    "llama": llama(),
    "llama-tied-with-biases": llama(tie_word_embeddings=True, attention_bias=True, mlp_bias=True, head_dim=16),
    "llama-linear": llama(rope_parameters=rope("linear", factor=2.0)),
    "llama-llama3": llama(
        rope_parameters=rope(
            "llama3", factor=8.0, low_freq_factor=0.5, high_freq_factor=2.0, original_max_position_embeddings=16
        )
    ),
    "llama-yarn": llama(rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=16)),
    "llama-ssa": llama(attn_implementation="ssa", score_share="layer"),
    "mistral": mistral(),
    "qwen2": qwen2(),
    "qwen2-window": qwen2(use_sliding_window=True, sliding_window=4, max_window_layers=1),
    "qwen3": qwen3(),
    "bert": BertForMaskedLM(bert_config()),
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
    assert run["config"]["task"]["name"] == ("mlm" if "bert" in name else "lm")


@pytest.mark.parametrize("name", [name for name in MODELS if "bert" not in name])
def test_perplexity_and_greedy_text_are_hugging_faces(checkpoint, name):
    model = MODELS[name].eval()
    ssa = checkpoint(model)
    tokenizer = Tokenizer.from_file(str(ssa.folder / "theirs/tokenizer.json"))
    text = " ".join(TEXTS)
    (ssa.folder / "texts.txt").write_text(text + "\n")
    ssa("import", "theirs", "--out", "run")
    ssa("eval", "run", "--suite", "ppl", "--texts", "texts.txt", "--lengths", 60, "--stride", 60)
    record = json.loads((ssa.folder / "run/evals/ppl.json").read_text())
    (found,) = [row["mean"] for row in record["rows"] if row["metric"] == "perplexity"]
    ids = [tokenizer.token_to_id("</s>"), *tokenizer.encode(text, add_special_tokens=False).ids]
    assert len(ids) < 60
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([ids[:-1]])).logits[0].double()
        truth = torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:])).exp().item()
        ids = tokenizer.encode(text, add_special_tokens=False).ids[:4]
        prompt, known = tokenizer.decode(ids), len(ids)
        for _ in range(12):
            ids.append(int(model(input_ids=torch.tensor([ids])).logits[0, -1, : tokenizer.get_vocab_size()].argmax()))
    assert found == pytest.approx(truth, rel=1e-4)
    flags = ["--prompt", prompt, "--tokens", 12, "--temperature", 0, "--no-end"]
    assert tokenizer.encode(prompt, add_special_tokens=False).ids == ids[:known]
    for more in ([], ["--no-cache"]):
        assert ssa("generate", "run", *flags, *more).stdout == tokenizer.decode(ids) + "\n"


def test_weights_in_several_files(checkpoint):
    model = MODELS["llama"]
    ssa = checkpoint(model)
    ssa("import", "theirs", "--out", "whole")
    (ssa.folder / "theirs/model.safetensors").unlink()
    model.save_pretrained(ssa.folder / "theirs", max_shard_size="20KB")
    files = sorted((ssa.folder / "theirs").glob("model-*.safetensors"))
    assert len(files) > 2
    ssa("import", "theirs", "--out", "parts")
    weights = [load_file(ssa.folder / run / "checkpoints/step-0/model.safetensors") for run in ("whole", "parts")]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    index = ssa.folder / "theirs/model.safetensors.index.json"
    for change, message in [
        (lambda c: c["weight_map"].update({"lm_head.weight": "../x"}), 'lm_head.weight = "../x" is no file name'),
        (lambda c: c["weight_map"].update({"lm_head.weight": "none.safetensors"}), "none.safetensors: no such file"),
        (lambda c: c.pop("weight_map"), "has no weight_map"),
    ]:
        content = json.loads(index.read_text())
        kept = index.read_text()
        change(content)
        index.write_text(json.dumps(content))
        assert message in ssa("import", "theirs", "--out", "bad", code=1).stderr
        index.write_text(kept)
    files[0].unlink()
    assert f"{files[0].name}: no such file" in ssa("import", "theirs", "--out", "bad", code=1).stderr


def test_the_inner_model_and_heads_that_are_not_used(checkpoint):
    ssa = checkpoint(BertForPreTraining(bert_config()))
    done = ssa("import", "theirs", "--out", "run")
    assert "left out, as of heads that the model has not: bert.pooler.dense.bias" in done.stdout
    file = ssa.folder / "theirs/model.safetensors"
    old = {name.replace("LayerNorm.weight", "LayerNorm.gamma"): w for name, w in load_file(file).items()}
    save_file({name.replace("LayerNorm.bias", "LayerNorm.beta"): w for name, w in old.items()}, file)
    ssa("import", "theirs", "--out", "old-names")
    for inner in (BertModel(bert_config()), LlamaModel(llama().config)):
        file.unlink()
        inner.save_pretrained(ssa.folder / "theirs")
        done = ssa("import", "theirs", "--tokenizer", "none", "--out", "inner", code=1)
        assert "it belongs to the head, which a checkpoint of the inner model alone lacks" in done.stderr


def test_weights_under_other_names_are_named(checkpoint):
    """A pooler is left out; query, key and value in one matrix, or names with a prefix, are said to be there."""
    ssa = checkpoint(MODELS["roberta"])
    file = ssa.folder / "theirs/model.safetensors"
    weights = load_file(file) | {"roberta.pooler.dense.weight": torch.zeros(32, 32)}
    save_file(weights, file)
    done = ssa("import", "theirs", "--out", "run")
    assert "left out, as of heads that the model has not: roberta.pooler.dense.weight" in done.stdout
    layer = "roberta.encoder.layer.0.attention.self."
    parts = [weights[f"{layer}{part}.weight"] for part in ("query", "key", "value")]
    fused = {name: weight for name, weight in weights.items() if not name.startswith(layer)}
    save_file(fused | {f"{layer}qkv.weight": torch.cat(parts)}, file)
    error = ssa("import", "theirs", "--out", "bad", code=1).stderr
    assert (
        f'the model\'s "{layer}key.bias" is not in it; "{layer}qkv.weight" is there, which the model has not' in error
    )
    save_file({f"module.{name}": weight for name, weight in weights.items()}, file)
    error = ssa("import", "theirs", "--out", "bad", code=1).stderr
    assert 'is not in it; "module.' in error and "inner model" not in error


def test_training_goes_on_from_there(checkpoint):
    ssa = checkpoint(MODELS["llama"])
    (ssa.folder / "texts.txt").write_text("\n".join(" ".join(TEXTS) for _ in range(40)) + "\n")
    for out in ("train", "held-out"):
        ssa("data", "tokenize", "texts.txt", "--tokenizer", "theirs/tokenizer.json", "--out", out)
    ssa("import", "theirs", "--out", "run")
    flags = ["--tokens", "train", "--validation-tokens", "held-out", "--length", 32, "--steps", 4, "--batch", 2]
    flags += ["--log-interval", 1, "--eval-batches", 1, "--optimizer", "muon", "--learning-rate", 1e-3]
    ssa("train", "--resume", "--out", "run", *flags)
    lines = [json.loads(line) for line in (ssa.folder / "run/metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert len(losses) == 4 and losses[-1] < losses[0]
    back = LlamaForCausalLM.from_pretrained(ssa.folder / "run/checkpoints/step-4")
    assert not torch.equal(back.lm_head.weight, MODELS["llama"].lm_head.weight)
    done = ssa("train", "--resume", "--out", "run", "--steps", 6, "--batch", 3, code=1)
    assert "train.batch is 2 in this run, but 3 is asked for" in done.stderr


def test_softmax_becomes_ssa_that_computes_the_same(checkpoint):
    ssa = checkpoint(MODELS["llama"], query_scale=12)
    (ssa.folder / "texts.txt").write_text(" ".join(TEXTS) + "\n")

    def perplexity(*flags):
        ssa("import", "theirs", "--out", "run", *flags)
        ssa("eval", "run", "--suite", "ppl", "--texts", "texts.txt", "--lengths", 60, "--stride", 60)
        record = json.loads((ssa.folder / "run/evals/ppl.json").read_text())
        shutil.rmtree(ssa.folder / "run")
        return next(row["mean"] for row in record["rows"] if row["metric"] == "perplexity")

    softmax = perplexity()
    assert perplexity("--score", "ssa", "--match") == pytest.approx(softmax, rel=1e-4)
    far = [abs(perplexity("--score", "ssa", "--match", "--strength", s) / softmax - 1) for s in (0.01, 1)]
    assert 1e-6 < far[0] < far[1]
    assert abs(perplexity("--score", "ssa") / softmax - 1) > 1e-3
    done = ssa("import", "theirs", "--out", "run", "--score", "sparsemax", "--match", code=1)
    assert "sparsemax does not contain softmax as a limit of its parameters; those that do: ssa, softcap" in done.stderr
    assert "--match needs --score" in ssa("import", "theirs", "--out", "run", "--match", code=1).stderr


@pytest.mark.parametrize(
    "name, score, strength",
    [
        ("llama", "ssa", 0.0),
        ("llama", "entmax", 0.1),
        ("mistral", "sink", 0.3),
        ("qwen3", "softcap", 0.2),
        ("bert", "ssa", 0.5),
    ],
)
def test_each_head_is_matched_on_texts(checkpoint, name, score, strength):
    """As ssa_attention.hf.convert does it: sizes, values, what moves, perplexity or similarity of embeddings."""
    model = MODELS[name].eval()
    ssa = checkpoint(model, query_scale=12)
    text = " ".join(TEXTS)
    (ssa.folder / "texts.txt").write_text(f"{text}\n<|endoftext|>\n{TEXTS[1]}\n")
    flags = ["--score", score, "--match", "--strength", strength, "--texts", "texts.txt"]
    shown = ssa("import", "theirs", "--out", "run", *flags).stdout
    found = json.loads((ssa.folder / "run/match.json").read_text())
    tokenizer = Tokenizer.from_file(str(ssa.folder / "theirs/tokenizer.json"))
    ids = [tokenizer.encode(each, add_special_tokens=name == "bert").ids for each in (text, TEXTS[1])]
    back = type(model).from_pretrained(ssa.folder / "run/checkpoints/step-0").eval()
    other = copy.deepcopy(model)
    wanted = hf.convert(other, score, strength=strength, texts=[torch.tensor(each) for each in ids])
    assert found["tokens"] == wanted.tokens
    for layer, module in zip(found["layers"], wanted.values, strict=True):
        assert layer["sizes"] == pytest.approx(wanted.sizes[module].tolist(), rel=1e-4)
        assert layer["moved"] == pytest.approx(wanted.attention_moved[module].tolist(), rel=1e-3, abs=1e-6)
        for parameter, value in wanted.values[module].items():
            assert layer["values"][parameter] == pytest.approx(value.tolist(), rel=1e-3)
            assert hf.score_values(back)[module][parameter].tolist() == pytest.approx(
                layer["values"][parameter], rel=1e-5
            )
    assert (found["before"], found["after"]) == pytest.approx((wanted.before, wanted.after), rel=1e-4)
    assert f"{found['measure']} on 2 sequences of {found['tokens']} tokens" in shown
    assert len(shown.splitlines()) >= 3 + sum(len(layer["moved"]) for layer in found["layers"])
    if name == "llama":
        done = ssa("import", "theirs", "--tokenizer", "none", "--out", "bad", *flags, code=1)
        assert "--texts: needs the checkpoint's tokenizer" in done.stderr
        assert ssa("import", "theirs", "--out", "bad", "--texts", "texts.txt", code=2).stderr.count("--match") == 1


def test_ssa_lands_while_it_is_trained(checkpoint):
    """By the rule of ssa_attention.hf: evenly in 1/n, with n·b = 1."""
    ssa = checkpoint(MODELS["llama"])
    (ssa.folder / "texts.txt").write_text("\n".join(" ".join(TEXTS) for _ in range(40)) + "\n")
    ssa("data", "tokenize", "texts.txt", "--tokenizer", "theirs/tokenizer.json", "--out", "train")
    ssa("import", "theirs", "--out", "run", "--score", "ssa", "--match")
    flags = ["--tokens", "train", "--length", 32, "--steps", 6, "--batch", 2, "--log-interval", 1, "--eval-batches", 0]
    flags += ["--score-landing", "4,0.25", "--score-landing-steps", 4, "--score-learning-rate", 0.1]
    ssa("train", "--resume", "--out", "run", *flags)
    lines = [json.loads(line) for line in (ssa.folder / "run/metrics.jsonl").read_text().splitlines()]
    values = [[line["score_parameters"][0][name] for name in "nb"] for line in lines if "loss" in line]
    for step, (n, b) in enumerate(values[:4]):  # as it was in the update, no head apart from the others
        part = 2**-22 + step / 4 * (1 / 4 - 2**-22)
        assert n == pytest.approx([1 / part] * 3, rel=1e-5) and b == pytest.approx([part] * 3, rel=1e-5)
    least, _, most = values[5][0]
    assert 3 < least < most < 5 and most - least > 1e-3  # they train now, each head its own
    # Bit by bit the same where it was stopped in between.
    ssa("import", "theirs", "--out", "parts", "--score", "ssa", "--match")
    ssa("train", "--resume", "--out", "parts", *flags, "--stop-at", 2)
    ssa("train", "--resume", "--out", "parts")
    assert same_weights(ssa.folder / "run", ssa.folder / "parts", 6)


def same_weights(one, other, step):
    both = [load_file(run / f"checkpoints/step-{step}/model.safetensors") for run in (one, other)]
    return all(torch.equal(weight, both[1][name]) for name, weight in both[0].items())


def test_a_landing_begins_where_each_head_stands(checkpoint):
    ssa = checkpoint(MODELS["llama"], query_scale=12)
    (ssa.folder / "texts.txt").write_text("\n".join(" ".join(TEXTS) for _ in range(40)) + "\n")
    ssa("data", "tokenize", "texts.txt", "--tokenizer", "theirs/tokenizer.json", "--out", "train")
    match = ["--score", "ssa", "--match", "--strength", 0.5, "--texts", "texts.txt"]
    flags = ["--tokens", "train", "--length", 32, "--steps", 5, "--batch", 2, "--log-interval", 1, "--eval-batches", 0]
    flags += ["--score-landing", "4,0.25", "--score-landing-steps", 4]
    for run in ("whole", "parts"):
        ssa("import", "theirs", "--out", run, *match)
    ssa("train", "--resume", "--out", "whole", *flags)
    ssa("train", "--resume", "--out", "parts", *flags, "--stop-at", 2)
    ssa("train", "--resume", "--out", "parts")
    assert same_weights(ssa.folder / "whole", ssa.folder / "parts", 5)
    begin = json.loads((ssa.folder / "whole/match.json").read_text())["layers"][1]["values"]["n"]
    assert max(begin) > 1.05 * min(begin)
    lines = [json.loads(line) for line in (ssa.folder / "whole/metrics.jsonl").read_text().splitlines()]
    for step in range(4):
        wanted = [1 / (1 / n + step / 4 * (1 / 4 - 1 / n)) for n in (min(begin), max(begin))]
        least, _, most = lines[step]["score_parameters"][1]["n"]
        assert (least, most) == pytest.approx(tuple(sorted(wanted)), rel=1e-4)


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
    assert '"lm_head.weight" differs from "wte.weight"' in done.stderr
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
        (lambda f: change_config(f, model_type="gemma2"), 'config.json: model_type = "gemma2" is not supported, only gpt2, nemotron, llama, mistral, qwen2, qwen3, roberta, xlm-roberta, camembert, bert; the nearest is llama'),
        (lambda f: change_config(f, rope_scaling={"type": "linear", "factor": 2.0}), 'rope_scaling = {"type":"linear","factor":2.0} is not known'),
        (lambda f: change_config(f, attn_implementation="ssaa"), 'attn_implementation = "ssaa" is not known; did you mean "ssa"?'),
        (lambda f: change_config(f, n_layer=2.5), "n_layer = 2.5 is of the wrong type: expected a whole number"),
        (lambda f: change_config(f, n_embd=32.7), "n_embd = 32.7 is of the wrong type: expected a whole number"),
        (lambda f: change_config(f, tie_word_embeddings=1), "tie_word_embeddings = 1 is of the wrong type: expected true or false"),
        (lambda f: change_config(f, logit_scale=0.5), "logit_scale = 0.5 is not known, so the model may compute something else"),
        (lambda f: change_config(f, quantization_config={"bits": 4}), "quantization_config: quantized weights are not supported"),
        (lambda f: change_config(f, auto_map={"AutoModel": "x.Y"}), "auto_map: a model with code of its own is not supported"),
        (lambda f: change_config(f, activation_function="mish"), 'activation_function = "mish" is not supported, only gelu'),
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
        (lambda f: change_weights(f, lambda w: w.update({"ln_f.bias": torch.ones(32)})), '"transformer.ln_f.bias" and "ln_f.bias" are the same weight'),
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rope_parameters": rope("dynamic", factor=2.0)}, 'rope_type = "dynamic" is not supported, only default, linear, llama3 and yarn; the nearest is yarn'),
        ({"rope_parameters": rope("linear", factor=2.0, beta=1)}, "rope_parameters.beta = 1 is not known"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling and rope_parameters are both there, and differ"),
        ({"rope_theta": 3.5}, "rope_theta = 3.5, but 10000 in the rotary parameters"),
        ({"attention_dropout": 0.1}, "attention_dropout = 0.1 is not supported, only 0.0"),
        ({"mlp_bias": True}, "mlp_bias = true is supported with attention_bias = true only"),
        ({"hidden_size": 32.7}, "hidden_size = 32.7 is of the wrong type: expected a whole number"),
        ({"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "layer_types": ["sliding_attention", "full_attention"], "use_sliding_window": True, "sliding_window": 4}, 'layer_types: "full_attention" in layer 1 is not supported'),
    ],
)  # fmt: skip
def test_what_llamas_blocks_have_not_is_refused(checkpoint, change, message):
    ssa = checkpoint(llama())
    change_config(ssa.folder, **change)
    assert message in ssa("import", "theirs", "--out", "run", code=1).stderr


def test_older_rotary_fields_are_understood(checkpoint):
    """rope_theta and rope_scaling, as files of transformers 4 have them."""
    ssa = checkpoint(llama())
    change_config(ssa.folder, rope_parameters="gone", rope_theta=500.0, rope_scaling={"type": "linear", "factor": 2})
    ssa("import", "theirs", "--out", "run")
    model = json.loads((ssa.folder / "run/run.json").read_text())["config"]["model"]
    assert (model["rotary_base"], model["rotary_scaling"], model["rotary_factor"]) == (500, "linear", 2)
