"""Hugging Face models with SSA as their users train them: float16, torch.compile, Trainer with activation
checkpointing; all on the CPU."""

import pytest
import ssa_attention
import torch
from ssa_attention import hf  # noqa: F401  (registers attn_implementation="ssa")
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

torch.set_num_threads(1)
IDS = torch.randint(1, 50, (2, 12), generator=torch.Generator().manual_seed(0))


def model(**options):
    config = LlamaConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=48, max_position_embeddings=64, initializer_range=0.2, pad_token_id=0,
        attn_implementation="ssa", **options,
    )  # fmt: skip
    torch.manual_seed(0)
    return LlamaForCausalLM(config)


def loss_and_gradients(found):
    loss = found(input_ids=IDS, labels=IDS).loss
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in found.named_parameters()}


def test_float16_is_float32_but_for_rounding():
    wanted, gradients = loss_and_gradients(model())
    half = model().half()
    loss, found = loss_and_gradients(half)
    assert ssa_attention.last_attention_path() == "fused"
    torch.testing.assert_close(loss.float(), wanted, rtol=5e-3, atol=5e-3)
    for name, gradient in found.items():
        torch.testing.assert_close(gradient.float(), gradients[name], rtol=0.05, atol=0.01)


def test_torch_compile():
    plain = model()
    wanted, gradients = loss_and_gradients(plain)
    compiled = model()
    loss = torch.compile(compiled, backend="aot_eager")(input_ids=IDS, labels=IDS).loss
    loss.backward()
    torch.testing.assert_close(loss.detach(), wanted)
    for name, parameter in compiled.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-4, atol=1e-6)


def test_trainer_with_checkpointing_and_dropout(tmp_path):
    """Recomputed layers draw the dropout that they drew: the losses are those without checkpointing."""

    pytest.importorskip("accelerate", reason="transformers' Trainer needs the package accelerate")

    def losses(checkpointing):
        arguments = TrainingArguments(
            str(tmp_path), use_cpu=True, max_steps=3, per_device_train_batch_size=2, logging_steps=1, report_to=[],
            save_strategy="no", gradient_checkpointing=checkpointing, learning_rate=0.01, seed=3, disable_tqdm=True,
        )  # fmt: skip
        rows = [{"input_ids": row, "labels": row} for row in IDS.repeat(4, 1)]
        trainer = Trainer(model(attention_dropout=0.3), arguments, train_dataset=rows)
        trainer.train()
        return [each["loss"] for each in trainer.state.log_history if "loss" in each]

    with_checkpoints, without = losses(True), losses(False)
    assert len(without) == 3 and with_checkpoints == without
