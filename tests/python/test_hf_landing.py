"""Landing: score parameters move to a target while a model trains, by hand, in a Trainer, and beside PEFT."""

import pytest
import torch
from small_hugging_face import HEADS, llama, texts
from ssa_attention import hf
from ssa_attention.softmax_limits import softmax_limits

ATTENTION = "model.layers.0.self_attn"


def converted(score="ssa", **options):
    model = llama()
    hf.convert(model, score, **options)
    return model


@pytest.mark.parametrize("parametrisation", ["softplus", "exp", "raw"])
def test_the_path_of_ssa(parametrisation):
    """1/n goes evenly from the matched value to the target, and n·b stays 1."""
    model = converted(strength=0.05, texts=texts(), parametrisation=parametrisation)
    start = 1 / hf.score_values(model)[ATTENTION]["n"]
    landing = hf.Landing(model, {"n": 4.0}, 10)
    for step in range(12):
        landing.step(step)
        values = hf.score_values(model)[ATTENTION]
        part = min(step / 10, 1)
        torch.testing.assert_close(1 / values["n"], (1 - part) * start + part / 4, rtol=1e-5, atol=0)
        torch.testing.assert_close(values["n"] * values["b"], torch.ones(HEADS), rtol=1e-5, atol=0)
        assert landing.landed == (step >= 10)
        assert model.model.layers[0].self_attn.score_n.requires_grad == (step >= 10)


def test_b_may_be_a_target_too():
    model = converted()
    landing = hf.Landing(model, {"n": 1.5, "b": 0.8}, 4, train=False)
    landing.step(4)
    values = hf.score_values(model)[ATTENTION]
    torch.testing.assert_close(values["n"], torch.full((HEADS,), 1.5))
    torch.testing.assert_close(values["b"], torch.full((HEADS,), 0.8))
    assert not any(raw.requires_grad for raw in hf.parameters.raw_parameters(model).values())


TARGETS = {
    "softcap": {"c": 20.0},
    "entmax": {"alpha": 1.5},
    "sink": {"z": 0.0},
    "temperature": {"tau": 2.0},
    "ssa": {"n": 2.0},
}


@pytest.mark.parametrize("score", softmax_limits())
def test_every_score_with_a_limit_lands(score):
    model = converted(score, texts=texts())
    landing = hf.Landing(model, TARGETS[score], 7)
    logits = []
    for step in range(8):
        landing.step(step)
        with torch.no_grad():
            logits.append(model(texts()[0][None]).logits)
    assert all(found.isfinite().all() for found in logits)
    assert (logits[0] - llama()(texts()[0][None]).logits).abs().max() < 1e-3
    (name, target), *_ = TARGETS[score].items()
    torch.testing.assert_close(hf.score_values(model)[ATTENTION][name], torch.full((HEADS,), target))


def test_no_optimizer_moves_them_before_they_have_landed():
    model = converted()
    optimizer = torch.optim.AdamW(hf.parameter_groups(model, lr=1e-3, score_lr=0.1, weight_decay=0.1))
    landing = hf.Landing(model, {"n": 4.0}, 3)
    seen = []
    for step in range(5):
        landing.step(step)
        seen.append(hf.score_values(model)[ATTENTION]["n"][0].item())
        model(texts()[0][None], labels=texts()[0][None]).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert seen[1:4] == pytest.approx([12, 6, 4], rel=1e-4)
    assert seen[4] != 4 and abs(seen[4] - 4) < 0.5


@pytest.mark.parametrize("done", [1, 6, 10, 13])
def test_a_resumed_run_goes_on_where_it_was(done):
    straight, stopped = (converted(strength=0.05, texts=texts()) for _ in range(2))
    landing = hf.Landing(straight, {"n": 2.0, "b": 0.7}, 10)
    first = hf.Landing(stopped, {"n": 2.0, "b": 0.7}, 10)
    for step in range(done + 1):
        landing.step(step)
        first.step(step)
    with torch.no_grad():
        for model in (straight, stopped):
            if done > 10:  # trained since
                model.model.layers[0].self_attn.score_n += 0.5
    second = hf.Landing(stopped, {"n": 2.0, "b": 0.7}, 10, done=done)
    for step in range(done, 14):
        landing.step(step)
        second.step(step)
        for mine, theirs in zip(
            hf.parameters.raw_parameters(stopped).values(), hf.parameters.raw_parameters(straight).values(), strict=True
        ):
            torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("target", "steps", "message"),
    [
        ({"n": 1.0}, 5, r"target n must be > 1 \(softplus\), got 1"),
        ({"b": 1.0}, 5, r"target must have n, got \['b'\]"),
        ({"n": 2.0, "c": 1.0}, 5, r"target: score 'ssa' has the parameters \['n', 'b'\], not \['c'\]"),
        ({"n": 2.0}, 0, "steps must be at least 1, got 0"),
    ],
)
def test_bad_targets_are_refused(target, steps, message):
    with pytest.raises(ValueError, match=message):
        hf.Landing(converted(), target, steps)


def test_models_without_a_score_are_refused():
    with pytest.raises(ValueError, match=r"the model must have one score with parameters, it has none"):
        hf.Landing(llama(), {"n": 2.0}, 5)


def trainer(model, folder, steps, callback, **more):
    from transformers import Trainer, TrainingArguments

    rows = [{"input_ids": text, "labels": text} for text in texts(8)]
    arguments = TrainingArguments(
        str(folder), max_steps=steps, per_device_train_batch_size=2, report_to=[], save_strategy="steps", save_steps=3,
        use_cpu=True, seed=1, weight_decay=0.1, disable_tqdm=True, learning_rate=1e-3, **more,
    )  # fmt: skip
    return Trainer(model, arguments, train_dataset=rows, callbacks=[callback])


def test_a_trainer_lands_and_resumes(tmp_path):
    pytest.importorskip("accelerate", reason="transformers' Trainer needs the package accelerate")
    model = converted()
    seen = []

    class Watch(hf.LandingCallback):
        def on_step_begin(self, args, state, control, model=None, **kwargs):
            super().on_step_begin(args, state, control, **kwargs)
            seen.append(hf.score_values(model)[ATTENTION]["n"][0].item())

    trainer(model, tmp_path, 8, Watch({"n": 4.0}, until=0.5)).train()
    assert seen[:5] == pytest.approx([2.0**22, 16, 8, 16 / 3, 4], rel=1e-4)
    assert seen[5] != 4 and seen[5] == pytest.approx(4, abs=0.1)
    final = {name: weight.clone() for name, weight in hf.parameters.raw_parameters(model).items()}
    again, seen = converted(), []
    trainer(again, tmp_path, 8, Watch({"n": 4.0}, until=0.5)).train(
        resume_from_checkpoint=str(tmp_path / "checkpoint-3")
    )
    assert seen[:2] == pytest.approx([16 / 3, 4], rel=1e-4)
    for name, weight in hf.parameters.raw_parameters(again).items():
        torch.testing.assert_close(weight, final[name], rtol=1e-4, atol=1e-5)


def test_beside_the_adapters_of_peft(tmp_path):
    peft = pytest.importorskip("peft")
    model = converted(strength=0.05, texts=texts())
    raw = {name: weight.detach().clone() for name, weight in hf.parameters.raw_parameters(model).items()}
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"]))
    assert not any(weight.requires_grad for weight in hf.parameters.raw_parameters(adapted).values())
    assert len(hf.train_scores(adapted)) == 4
    optimizer = torch.optim.AdamW(hf.parameter_groups(adapted, lr=1e-2, weight_decay=0.1))
    for _ in range(3):
        adapted(input_ids=texts()[0][None], labels=texts()[0][None]).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    trained = {name: weight.detach() for name, weight in hf.parameters.raw_parameters(adapted).items()}
    assert all(not torch.equal(weight, before) for weight, before in zip(trained.values(), raw.values(), strict=True))
    adapted.save_pretrained(tmp_path)
    hf.save_scores(adapted, tmp_path / "scores.safetensors")
    read = peft.PeftModel.from_pretrained(converted(), tmp_path)
    hf.load_scores(read, tmp_path / "scores.safetensors")
    ids = texts()[1][None]
    assert torch.equal(read.eval()(input_ids=ids).logits, adapted.eval()(input_ids=ids).logits)
    merged = read.merge_and_unload()
    assert hf.score_values(merged).keys() == hf.score_values(converted()).keys()


def test_modules_to_save_of_peft_keep_them(tmp_path):
    peft = pytest.importorskip("peft")
    n = 4096.0
    model = llama(score_initial=[n, 1 / n], attn_implementation="ssa")
    config = peft.LoraConfig(r=2, target_modules=["up_proj"], modules_to_save=["self_attn"])
    adapted = peft.get_peft_model(model, config).bfloat16()
    with torch.no_grad():
        for weight in hf.parameters.raw_parameters(adapted).values():
            assert weight.dtype == torch.float32
            weight += 0.125
    adapted.save_pretrained(tmp_path)
    base = llama(score_initial=[n, 1 / n], attn_implementation="ssa").bfloat16()
    read = peft.PeftModel.from_pretrained(base, tmp_path)
    ids = texts()[1][None]
    assert torch.equal(read.eval()(input_ids=ids).logits, adapted.eval()(input_ids=ids).logits)
    found = hf.parameters.raw_parameters(read)
    active = [weight for name, weight in found.items() if "modules_to_save" in name and name.endswith("score_n")]
    assert len(active) == 2
    for weight in active:
        assert weight.dtype == torch.float32 and torch.equal(weight, torch.full((HEADS,), n - 1 + 0.125))


@pytest.mark.parametrize("wrong", ["missing", "shape", "no file", "no scores"])
def test_files_of_scores_that_do_not_fit_are_refused(tmp_path, wrong):
    path = tmp_path / "scores.safetensors"
    if wrong == "no scores":
        with pytest.raises(ValueError, match="the model has no score with parameters"):
            hf.save_scores(llama(), path)
        return
    if wrong != "no file":
        hf.save_scores(converted() if wrong == "missing" else converted(share="layer"), path)
    model = converted("sink") if wrong == "missing" else converted()
    messages = {"missing": "scores.safetensors: has", "shape": r"has shape \[1\]", "no file": "scores.safetensors"}
    with pytest.raises(ValueError, match=messages[wrong]):
        hf.load_scores(model, path)
