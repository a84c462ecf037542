"""The models of the fixed set, from their configurations, with random weights. Each is a SPEC:

hx bench tests/bench/models.py:vit_b --dynamic "x:0=batch"
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "shared"))
import vision

IMAGE = "x:0=batch"
TEXT = "input_ids:0=batch,1=sequence"


class Only(nn.Module):
    """The one tensor that matters of a model that returns many, as deployments ask for it."""

    def __init__(self, model: nn.Module, name: str, **fixed) -> None:
        super().__init__()
        self.model, self.name, self.fixed = model, name, fixed

    def forward(self, input_ids):
        return self.model(input_ids, **self.fixed)[self.name]


def _image(name: str, **config):
    return getattr(vision.torchvision().models, name)(**config), torch.randn(2, 3, 224, 224)


def _transformers():
    with contextlib.suppress(ModuleNotFoundError):
        vision.torchvision()  # transformers imports it where it is installed
    import transformers

    return transformers


def _ids(length: int, vocabulary: int = 1000):
    return torch.randint(5, vocabulary, (2, length))


def resnet50():
    return _image("resnet50")


def mobilenet_v3():
    return _image("mobilenet_v3_large")


def convnext():
    return _image("convnext_tiny")


def vit_b():
    return _image("vit_b_16")


def swin():
    return _image("swin_t")


def bert():
    transformers = _transformers()
    model = transformers.BertModel(transformers.BertConfig())
    return Only(model, "last_hidden_state"), _ids(128)


def gpt2():
    transformers = _transformers()
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config())
    return Only(model, "logits", use_cache=False), _ids(64)


def llama():
    """16 layers, grouped heads, as in Llama 3; narrow, so that it fits beside its rivals."""
    transformers = _transformers()
    config = transformers.LlamaConfig(
        hidden_size=768, intermediate_size=2048, num_hidden_layers=16, num_attention_heads=12,
        num_key_value_heads=4, vocab_size=16000,
    )  # fmt: skip
    return Only(transformers.LlamaForCausalLM(config), "logits", use_cache=False), _ids(64)


def _t5():
    transformers = _transformers()
    return transformers.T5ForConditionalGeneration(transformers.T5Config())


def t5_encoder():
    return Only(_t5().get_encoder(), "last_hidden_state"), _ids(64)


class _T5Decoder(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.decoder, self.head = model.get_decoder(), model.lm_head

    def forward(self, input_ids, states):
        hidden = self.decoder(input_ids, encoder_hidden_states=states, use_cache=False)
        return self.head(hidden["last_hidden_state"])


def t5_decoder():
    return _T5Decoder(_t5()), (_ids(32), torch.randn(2, 64, 512))


class _Whisper(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, features, input_ids):
        return self.model(features, decoder_input_ids=input_ids, use_cache=False)["logits"]


def whisper():
    transformers = _transformers()
    config = transformers.WhisperConfig(
        d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6,
        decoder_attention_heads=6, encoder_ffn_dim=1536, decoder_ffn_dim=1536,
    )  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(config)
    return _Whisper(model), (torch.randn(2, 80, 3000), _ids(16))


def _double(inside: int, out: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for wide in (inside, out):
        layers += [nn.Conv2d(wide, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU()]
    return nn.Sequential(*layers)


class _UNet(nn.Module):
    def __init__(self, widths=(32, 64, 128, 256, 512)) -> None:
        super().__init__()
        self.down = nn.ModuleList(map(_double, (3, *widths), widths))
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(low, high, 2, stride=2) for high, low in zip(widths, widths[1:])
        )
        self.join = nn.ModuleList(_double(2 * w, w) for w in widths[:-1])
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        kept = []
        for block in self.down[:-1]:
            x = block(x)
            kept.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.down[-1](x)
        for up, join in zip(reversed(self.up), reversed(self.join)):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.head(x)


def unet():
    return _UNet(), torch.randn(2, 3, 128, 128)


def mlp_400():
    layers = [part for _ in range(400) for part in (nn.Linear(64, 64), nn.ReLU())]
    return nn.Sequential(*layers), torch.randn(2, 64)


class _Unrolled(nn.Module):
    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps, self.cell = steps, nn.RNNCell(8, 16)

    def forward(self, x):
        hidden = x.new_zeros(x.shape[0], 16)
        for step in range(self.steps):
            hidden = self.cell(x[:, step], hidden)
        return hidden


def rnn_2000():
    return _Unrolled(2000), torch.randn(2, 2000, 8)


def linear_8x4096():
    return nn.Sequential(*(nn.Linear(4096, 4096) for _ in range(8))), torch.randn(2, 4096)


class _Chain(nn.Module):
    """As many nodes as asked for, and next to no arithmetic: the time of a node."""

    def __init__(self, nodes: int) -> None:
        super().__init__()
        self.steps = nodes // 2

    def forward(self, x):
        for _ in range(self.steps):
            x = torch.tanh(x * 1.01)
        return x


def nodes_100():
    return _Chain(100), torch.randn(2, 4)


def nodes_1000():
    return _Chain(1000), torch.randn(2, 4)


def nodes_10000():
    return _Chain(10_000), torch.randn(2, 4)


def nodes_50000():
    return _Chain(50_000), torch.randn(2, 4)


# Every model of the set, with the axes of its inputs that may change.
MODELS = {
    "resnet50": IMAGE,
    "mobilenet_v3": IMAGE,
    "convnext": IMAGE,
    "vit_b": IMAGE,
    "swin": IMAGE,
    "bert": TEXT,
    "gpt2": TEXT,
    "llama": TEXT,
    "t5_encoder": TEXT,
    "t5_decoder": f"{TEXT} states:0=batch,1=source",
    "whisper": "features:0=batch input_ids:0=batch,1=sequence",
    "unet": IMAGE,
    "mlp_400": "input:0=batch",
    "rnn_2000": "x:0=batch",
    "linear_8x4096": "input:0=batch",
}
CHAINS = ("nodes_100", "nodes_1000", "nodes_10000", "nodes_50000")
