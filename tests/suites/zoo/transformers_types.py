"""Which model types of transformers are built, and what their tiny configurations need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .shrink import OMIT


@dataclass
class Type:
    variants: tuple[str, ...] = ("base",)
    config: dict[str, Any] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    auto: str = ""
    attention: bool = True  # the class lets one choose between eager and sdpa
    mask: bool = True
    decoder: bool = True
    loops: bool = False
    length: int = 7
    image: tuple[int, ...] = (3, 32, 32)
    samples: int | tuple[int, ...] = 1600
    features: tuple[int, ...] = (16, 128)
    extra: dict[str, Any] = field(default_factory=dict)


TYPES: dict[str, Type] = {}


def _many(kinds: str, **options: Any) -> None:
    for kind in kinds.split():
        TYPES[kind] = Type(**options)


_many(
    """albert bert camembert distilbert electra ernie roberta xlm-roberta mpnet megatron-bert
    modernbert nomic_bert rembert roformer xlm ibert convbert deberta deberta-v2 esm
    flaubert fnet funnel layoutlm lilt longformer luke mobilebert nystromformer roberta-prelayernorm
    roc_bert splinter squeezebert xlm-roberta-xl xlnet xmod canine big_bird bert-generation
    data2vec-text eurobert jina_embeddings_v3 yoso mra ctrl openai-gpt""",
)
_many(
    """llama gpt2 gpt_neox opt bloom mistral qwen2 qwen3 gemma gemma2 gemma3_text phi phi3 falcon
    gptj
    gpt_neo codegen cohere cohere2 olmo olmo2 granite starcoder2 stablelm persimmon mixtral
    qwen2_moe qwen3_moe olmoe granitemoe biogpt xglm gpt_bigcode glm glm4 helium smollm3 nemotron
    deepseek_v2 deepseek_v3 arcee gpt_oss ernie4_5 exaone4 apertus diffllama
    bitnet moshi seed_oss""",
    variants=("causal", "cache"),
)
_many("mamba rwkv recurrent_gemma falcon_mamba jamba xlstm", variants=("causal",), loops=True)
_many("mamba2 bamba zamba2 lfm2 qwen3_next", variants=("causal",))  # fmt: skip
_many("t5 bart mbart pegasus marian blenderbot blenderbot-small m2m_100 led mt5 umt5 longt5 "
      "switch_transformers prophetnet plbart bigbird_pegasus nllb-moe fsmt pegasus_x",
      variants=("seq2seq", "seq2seqcache"))  # fmt: skip
_many("""vit deit beit convnext convnextv2 swin swinv2 resnet mobilenet_v1 mobilenet_v2 mobilevit
      mobilevitv2 segformer dinov2 dinov2_with_registers poolformer regnet efficientnet cvt levit
      pvt pvt_v2 focalnet hiera bit data2vec-vision ijepa vit_msn swiftformer hgnet_v2 textnet
      dinov3_vit dinov3_convnext vivit timesformer videomae""",
      variants=("base",), inputs=("pixel_values",))  # fmt: skip
_many("clip_vision_model siglip_vision_model dpt yolos detr conditional_detr rt_detr maskformer "
      "glpn sam_vision_model mlcd aimv2_vision_model swin2sr depth_pro vitdet superpoint",
      inputs=("pixel_values",))  # fmt: skip
_many("wav2vec2 hubert wavlm unispeech unispeech-sat data2vec-audio sew sew-d",
      inputs=("input_values",))  # fmt: skip
_many("whisper", inputs=("input_features",), features=(16, 128))
_many("wav2vec2-bert seamless_m4t speech_to_text", inputs=("input_features",), features=(40, 16))
_many("audio-spectrogram-transformer", inputs=("input_values",))
_many("encodec mimi dac", inputs=("input_values",))
_many("clip siglip align altclip chinese_clip clipseg blip owlvit owlv2 flava groupvit xclip "
      "metaclip_2 siglip2", inputs=("input_ids", "pixel_values"))  # fmt: skip
_many("vilt layoutlmv3 visual_bert bridgetower", inputs=("input_ids", "pixel_values"))
_many("layoutlm lilt layoutlmv3 layoutlmv2", inputs=("input_ids", "bbox"))


def _with(kind: str, config: dict[str, Any] | None = None, **options: Any) -> None:
    """What a type needs beyond the tiny numbers that all get."""
    entry = TYPES[kind]
    entry.config.update(config or {})
    for name, value in options.items():
        setattr(entry, name, value)


_with("funnel", {"block_sizes": [1, 1], "block_repeats": [1, 1]})
_with("lilt", {"hidden_size": 48})
_with("xmod", {"default_language": "en_XX"})
_with("gpt_neo", {"attention_types": [[["global", "local"], 1]]})
_with("mamba2", {"num_heads": 8})
_with("bamba", {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8})
_with("layoutlmv3", {"coordinate_size": 6, "shape_size": 4})
for _kind in ("convnext", "convnextv2", "levit"):
    _with(_kind, image=(3, 64, 64))
for _kind in ("swin", "swinv2", "swin2sr"):
    _with(_kind, {"depths": [1, 1], "num_heads": [2, 4], "window_size": 2, "patch_size": 4})
_with("mobilevitv2", {"patch_size": 2}, image=(3, 64, 64))
_with("efficientnet", {"hidden_dim": OMIT})
_with("hiera", image=(3, 224, 224))
for _kind in ("vivit", "timesformer", "videomae"):
    _with(_kind, {"num_frames": 8}, image=(8, 3, 32, 32))
for _kind in ("wav2vec2-bert", "seamless_m4t"):
    _with(_kind, features=(40, 160))
_with("speech_to_text", features=(40, 80))
_with("audio-spectrogram-transformer", {"max_length": 64}, samples=(64, 16))
for _kind in ("encodec", "mimi", "dac"):
    _with(_kind, samples=(1, 1600))
