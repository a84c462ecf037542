"""What this pack gains: each model exported plainly and with the pack, run in turn in onnxruntime.

python bench.py               # one thread; medians of the ratio of a turn, sizes on disk
python bench.py --left-out    # the same for what was measured no faster, and is not in the pack
python bench.py rotary Llama  # only the rows with one of these words
"""

from __future__ import annotations

import copy
import statistics
import sys
import tempfile
import time
from pathlib import Path

import hx_ort
import onnxruntime
import torch
from torch import nn

import hx
from hx import Registry

ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
CHOSEN = {ATTENTION: "hx-ort", "transformers.*": "hx-ort"}


class Attend(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, q, k, v):
        q, k, v = (x.view(*x.shape[:2], self.heads, -1).transpose(1, 2) for x in (q, k, v))
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return y.transpose(1, 2).flatten(2)


class Step(nn.Module):
    """A language model from tokens and what it keeps of those before to what it keeps then.

    One graph for the first step and for all that follow: no length is fixed.
    """

    def __init__(self, heads: int, shared: int, width: int, layers: int) -> None:
        from transformers import LlamaConfig, LlamaModel

        super().__init__()
        self.kept = shared, width // heads
        self.model = LlamaModel(LlamaConfig(
            vocab_size=1000, hidden_size=width, intermediate_size=2 * width,
            num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=shared,
        )).eval()  # fmt: skip

    def forward(self, tokens, mask, past):
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer, (keys, values) in enumerate(past):
            cache.update(keys, values, layer)
        hidden = self.model(tokens, attention_mask=mask, past_key_values=cache).last_hidden_state
        return hidden, [(layer.keys, layer.values) for layer in cache.layers]

    def inputs(self, tokens: int, before: int):
        heads, width = self.kept
        past = [
            tuple(torch.randn(1, heads, before, width) for _ in "kv") for _ in self.model.layers
        ]
        mask = torch.ones(1, before + tokens, dtype=torch.int64)
        return torch.randint(0, 1000, (1, tokens)), mask, past


class Turn(nn.Module):
    """Queries and keys turned by where they stand, as transformers does it."""

    def __init__(self) -> None:
        from transformers.models.llama import modeling_llama

        super().__init__()
        self.llama = modeling_llama

    def forward(self, q, k, angles):
        angles = torch.cat((angles, angles), -1)
        return self.llama.apply_rotary_pos_emb(q, k, angles.cos(), angles.sin())


def tensors(tree):
    return [tree] if isinstance(tree, torch.Tensor) else [t for each in tree for t in tensors(each)]


def lengths(layers):
    past = {f"past_{layer}_{each}": {2: "p"} for layer in range(layers) for each in (0, 1)}
    return {"tokens": {1: "s"}, "mask": {1: "p + s"}, **past}


def session(model, args, folder, name, recorded=None, **options):
    path = Path(folder, f"{name}.onnx")
    hx.export(model, args if recorded is None else recorded, path, **options)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    loaded = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    names = [each.name for each in loaded.get_inputs()]
    feeds = {key: tensor.numpy() for key, tensor in zip(names, tensors(args))}
    return (lambda: loaded.run(None, feeds)), path.stat().st_size


def turns(runs, seconds=4.0):
    times = [[], []]
    for run in runs:
        run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 10:
        for run, kept in zip(runs, times):
            start = time.process_time()
            run()
            kept.append(time.process_time() - start)
    ratio = statistics.median(a / b for a, b in zip(*times))
    return *map(statistics.median, times), ratio


def show(what, model, own, args, standard=None, **options):
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    if words and not any(word in what for word in words):
        return
    with tempfile.TemporaryDirectory() as folder:
        plain, before = session(model, args, folder, "plain", **(standard or {}))
        packed, after = session(own, args, folder, "own", **options)
        a, b, ratio = turns([plain, packed])
        sizes = (
            f"{before / 1e6:.2f} MB | {after / 1e6:.2f} MB" if before > 2 * after > 1e5 else " |"
        )
        print(f"| {what} | {a * 1e3:.2f} ms | {b * 1e3:.2f} ms | {ratio:.2f}x | {sizes} |",
              flush=True)  # fmt: skip


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print("| | standard | hx-ort | faster | file | file |\n|---|---|---|---|---|---|")
    if "--left-out" in sys.argv:
        import left_out

        return left_out.main(show)
    chosen = Registry.installed(use=CHOSEN)
    for batch, heads, length in [(2, 12, 32), (2, 12, 197), (1, 12, 512), (1, 6, 1500)]:
        args = tuple(torch.randn(batch, length, heads * 64) for _ in "qkv")
        what = f"attention, {batch} x {heads} heads x {length}"
        show(what, Attend(heads), Attend(heads), args, packs=chosen)
    for length in (1, 128, 1024):
        args = *(torch.randn(1, heads, length, 64) for heads in (32, 8)), torch.rand(1, length, 32)
        show(f"rotary, 32 and 8 heads x {length}", Turn(), Turn(), args, packs=chosen)
    for opset, *sizes in [(20, 16, 4, 1024), (20, 12, 12, 768), (23, 16, 4, 1024)]:
        model = Step(*sizes, layers=4)
        one = {"opset": opset, "dynamic": lengths(4), "recorded": model.inputs(3, 5)}
        for tokens, before in [(1, 128), (1, 1024), (128, 1)]:
            heads = f"{sizes[0]} heads to {sizes[1]}"
            what = f"Llama, {heads}, {tokens} after {before}, opset {opset}"
            show(what, model, model, model.inputs(tokens, before), one, packs=chosen, **one)
    for width in (768, 2048, 4096):
        linear = nn.Linear(width, width)
        small = hx_ort.quantize(nn.Sequential(copy.deepcopy(linear)), least=0)
        for rows in (1, 16, 128):
            show(f"Linear({width}), {rows} rows", linear, small, (torch.randn(rows, width),))


if __name__ == "__main__":
    main()
