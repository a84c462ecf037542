"""Models of libraries for text, audio, diffusion and series."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from . import BATCH

Built = tuple[nn.Module, tuple, dict[str, dict[int, str]]]
MODELS: dict[str, Callable[[], Built]] = {}


def model(build: Callable[[], Built]) -> Callable[[], Built]:
    MODELS[build.__name__] = build
    return build


def pictures(count: int, channels: int, size: int) -> torch.Tensor:
    return torch.randn(count, channels, size, size)


@model
def x_transformers_decoder() -> Built:
    from x_transformers import Decoder, TransformerWrapper

    return (
        TransformerWrapper(
            num_tokens=100, max_seq_len=64, attn_layers=Decoder(dim=32, depth=2, heads=2)
        ),
        (torch.randint(0, 100, (2, 12)),),
        {"x": {0: "batch", 1: "seq"}},
    )


@model
def x_transformers_rotary() -> Built:
    from x_transformers import Decoder, TransformerWrapper

    return (
        TransformerWrapper(
            num_tokens=100,
            max_seq_len=64,
            attn_layers=Decoder(
                dim=32, depth=2, heads=2, rotary_pos_emb=True, use_rmsnorm=True, ff_glu=True
            ),
        ),
        (torch.randint(0, 100, (2, 12)),),
        {"x": {0: "batch", 1: "seq"}},
    )


@model
def x_transformers_alibi() -> Built:
    from x_transformers import Decoder, TransformerWrapper

    return (
        TransformerWrapper(
            num_tokens=100,
            max_seq_len=64,
            attn_layers=Decoder(dim=32, depth=2, heads=2, alibi_pos_bias=True, attn_sparse_topk=4),
        ),
        (torch.randint(0, 100, (2, 12)),),
        {"x": {0: "batch", 1: "seq"}},
    )


@model
def x_transformers_t5() -> Built:
    from x_transformers import Encoder, TransformerWrapper

    return (
        TransformerWrapper(
            num_tokens=100,
            max_seq_len=64,
            attn_layers=Encoder(dim=32, depth=2, heads=2, rel_pos_bias=True),
        ),
        (torch.randint(0, 100, (2, 12)),),
        {"x": {0: "batch", 1: "seq"}},
    )


@model
def x_transformers_vit() -> Built:
    from x_transformers import Encoder, ViTransformerWrapper

    return (
        ViTransformerWrapper(
            image_size=32,
            patch_size=8,
            num_classes=5,
            attn_layers=Encoder(dim=32, depth=2, heads=2),
        ),
        (pictures(2, 3, 32),),
        {"img": BATCH},
    )


@model
def x_transformers_encdec() -> Built:
    from x_transformers import XTransformer

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.m = XTransformer(
                dim=32,
                enc_num_tokens=50,
                enc_depth=1,
                enc_heads=2,
                enc_max_seq_len=32,
                dec_num_tokens=50,
                dec_depth=1,
                dec_heads=2,
                dec_max_seq_len=32,
            )

        def forward(self, src, tgt):
            return self.m.decoder.net(tgt, context=self.m.encoder(src, return_embeddings=True))

    return (
        Wrapped(),
        (torch.randint(0, 50, (2, 9)), torch.randint(0, 50, (2, 7))),
        {"src": {0: "b", 1: "s"}, "tgt": {0: "b", 1: "t"}},
    )


@model
def diffusers_unet2d() -> Built:
    from diffusers import UNet2DModel as U

    return (
        U(
            sample_size=16,
            in_channels=3,
            out_channels=3,
            layers_per_block=1,
            block_out_channels=(32, 32),
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        ),
        (pictures(2, 3, 16), torch.tensor(5)),
        {"sample": BATCH},
    )


@model
def diffusers_unetcond() -> Built:
    from diffusers import UNet2DConditionModel as U

    return (
        U(
            sample_size=16,
            in_channels=4,
            out_channels=4,
            layers_per_block=1,
            block_out_channels=(32, 64),
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
            cross_attention_dim=32,
            attention_head_dim=8,
        ),
        (pictures(2, 4, 16), torch.tensor(5), torch.randn(2, 7, 32)),
        {"sample": {0: "batch"}, "encoder_hidden_states": {0: "batch", 1: "s"}},
    )


@model
def diffusers_vae() -> Built:
    from diffusers import AutoencoderKL as A

    return (
        A(block_out_channels=(32,), latent_channels=4, norm_num_groups=8).encoder,
        (pictures(2, 3, 32),),
        {"sample": BATCH},
    )


@model
def diffusers_vaedec() -> Built:
    from diffusers import AutoencoderKL as A

    return (
        A(block_out_channels=(32,), latent_channels=4, norm_num_groups=8).decoder,
        (pictures(2, 4, 8),),
        {"sample": {0: "batch", 2: "h", 3: "w"}},
    )


@model
def diffusers_dit() -> Built:
    from diffusers import DiTTransformer2DModel as D

    return (
        D(
            num_attention_heads=2,
            attention_head_dim=16,
            in_channels=4,
            num_layers=2,
            sample_size=8,
            patch_size=2,
            num_embeds_ada_norm=10,
        ),
        (pictures(2, 4, 8), torch.tensor([1, 2]), torch.tensor([3, 4])),
        {"hidden_states": BATCH, "timestep": BATCH, "class_labels": BATCH},
    )


@model
def diffusers_flux() -> Built:
    from diffusers import FluxTransformer2DModel as F

    mm = F(
        patch_size=1,
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        axes_dims_rope=(4, 4, 8),
    )

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.m = mm

        def forward(self, hidden, enc, pooled, t, img_ids, txt_ids):
            return self.m(hidden, enc, pooled, t, img_ids, txt_ids, return_dict=False)[0]

    return (
        Wrapped(),
        (
            torch.randn(2, 16, 4),
            torch.randn(2, 5, 32),
            torch.randn(2, 32),
            torch.tensor([0.3, 0.7]),
            torch.rand(16, 3),
            torch.zeros(5, 3),
        ),
        {"hidden": BATCH, "enc": BATCH, "pooled": BATCH, "t": BATCH},
    )


@model
def diffusers_sd3() -> Built:
    from diffusers import SD3Transformer2DModel as S

    return (
        S(
            sample_size=8,
            patch_size=2,
            in_channels=4,
            num_layers=1,
            attention_head_dim=8,
            num_attention_heads=4,
            joint_attention_dim=32,
            caption_projection_dim=32,
            pooled_projection_dim=64,
            out_channels=4,
            pos_embed_max_size=16,
        ),
        (pictures(2, 4, 8), torch.randn(2, 5, 32), torch.randn(2, 64), torch.tensor([3, 5])),
        {
            "hidden_states": BATCH,
            "encoder_hidden_states": BATCH,
            "pooled_projections": BATCH,
            "timestep": BATCH,
        },
    )


@model
def torchcrf_decode() -> Built:
    from torchcrf import CRF

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = CRF(5, batch_first=True)

        def forward(self, e, tags):
            return self.c(e, tags)

    return (
        Wrapped(),
        (torch.randn(2, 7, 5), torch.randint(0, 5, (2, 7))),
        {"e": {0: "batch", 1: "t"}, "tags": {0: "batch", 1: "t"}},
    )


@model
def torchcrf_viterbi() -> Built:
    from torchcrf import CRF

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = CRF(5, batch_first=True)

        def forward(self, e):
            return torch.tensor(self.c.decode(e))

    return Wrapped(), (torch.randn(2, 7, 5),), {"e": {0: "batch", 1: "t"}}


@model
def asteroid_convtasnet() -> Built:
    from asteroid.models import ConvTasNet as C

    return (
        C(2, n_repeats=1, n_blocks=2, bn_chan=16, hid_chan=16, skip_chan=16, n_filters=32),
        (torch.randn(2, 800),),
        {"wav": {0: "batch", 1: "t"}},
    )


@model
def asteroid_dprnn() -> Built:
    from asteroid.models import DPRNNTasNet as C

    return (
        C(2, n_repeats=1, bn_chan=16, hid_size=16, n_filters=32, chunk_size=20),
        (torch.randn(2, 800),),
        {"wav": BATCH},
    )


@model
def nnaudio_stft() -> Built:
    from nnAudio.features import STFT

    return (
        STFT(n_fft=64, hop_length=16, output_format="Magnitude", verbose=False),
        (torch.randn(2, 400),),
        {"x": {0: "batch", 1: "t"}},
    )


@model
def nnaudio_mel() -> Built:
    from nnAudio.features import MelSpectrogram

    return (
        MelSpectrogram(sr=1600, n_fft=64, n_mels=16, hop_length=16, verbose=False),
        (torch.randn(2, 400),),
        {"x": BATCH},
    )


@model
def nnaudio_cqt() -> Built:
    from nnAudio.features import CQT1992v2

    return (
        CQT1992v2(sr=1600, hop_length=32, fmin=50, n_bins=24, verbose=False),
        (torch.randn(2, 1600),),
        {"x": BATCH},
    )


@model
def vector_quantize() -> Built:
    from vector_quantize_pytorch import VectorQuantize as V

    return V(dim=16, codebook_size=32), (torch.randn(2, 9, 16),), {"x": {0: "batch", 1: "n"}}


@model
def residual_vector_quantize() -> Built:
    from vector_quantize_pytorch import ResidualVQ as V

    return (
        V(dim=16, codebook_size=32, num_quantizers=3),
        (torch.randn(2, 9, 16),),
        {"x": {0: "batch", 1: "n"}},
    )


@model
def finite_scalar_quantize() -> Built:
    from vector_quantize_pytorch import FSQ as V

    return V([8, 5, 5]), (torch.randn(2, 9, 3),), {"z": {0: "batch", 1: "n"}}


@model
def lookup_free_quantize() -> Built:
    from vector_quantize_pytorch import LFQ as V

    return V(codebook_size=64, dim=6), (torch.randn(2, 9, 6),), {"x": {0: "batch", 1: "n"}}


@model
def perceiver_pytorch() -> Built:
    from perceiver_pytorch import Perceiver as P

    return (
        P(
            input_channels=3,
            input_axis=2,
            num_freq_bands=4,
            max_freq=10.0,
            depth=2,
            num_latents=8,
            latent_dim=32,
            num_classes=5,
            latent_heads=2,
            latent_dim_head=8,
            cross_dim_head=8,
        ),
        (torch.randn(2, 12, 12, 3),),
        {"data": BATCH},
    )


@model
def performer_pytorch() -> Built:
    from performer_pytorch import PerformerLM as P

    return (
        P(num_tokens=50, max_seq_len=32, dim=32, depth=1, heads=2, causal=False),
        (torch.randint(0, 50, (2, 16)),),
        {"x": BATCH},
    )


@model
def reformer_pytorch() -> Built:
    from reformer_pytorch import ReformerLM as P

    return (
        P(num_tokens=50, max_seq_len=32, dim=32, depth=1, heads=2, bucket_size=4, causal=True),
        (torch.randint(0, 50, (2, 16)),),
        {"x": BATCH},
    )


@model
def tsai_inception() -> Built:
    from tsai.models.InceptionTime import InceptionTime as T

    return T(3, 4), (torch.randn(2, 3, 40),), {"x": {0: "batch", 2: "t"}}


@model
def tsai_patchtst() -> Built:
    from tsai.models.PatchTST import PatchTST as T

    return T(3, 3, seq_len=40, pred_dim=8), (torch.randn(2, 3, 40),), {"z": BATCH}


@model
def tsai_tst() -> Built:
    from tsai.models.TST import TST as T

    return T(3, 4, seq_len=40), (torch.randn(2, 3, 40),), {"x": BATCH}


@model
def sentence_transformers_pooling() -> Built:
    from sentence_transformers.models import Pooling

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.p = Pooling(8, "mean")

        def forward(self, x, mask):
            return self.p({"token_embeddings": x, "attention_mask": mask})["sentence_embedding"]

    return (
        Wrapped(),
        (torch.randn(2, 5, 8), torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])),
        {"x": {0: "b", 1: "t"}, "mask": {0: "b", 1: "t"}},
    )


@model
def peft_lora() -> Built:
    import peft

    base = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    return (
        peft.get_peft_model(
            base, peft.LoraConfig(target_modules=["0", "2"], init_lora_weights=False)
        ),
        (torch.randn(2, 8),),
        {},
    )
