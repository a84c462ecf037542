"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hx.cli.help_groups import INPUTS, OUTPUT, PACKS, PROOF

if TYPE_CHECKING:
    from hx.inputs.given import Call
    from hx.inputs.spec import Loaded
    from hx.packs.registry import Registry


def complete_spec(incomplete: str) -> list[str]:
    """Complete a SPEC: schemes, the models of a scheme, Python files, and the names in a file."""
    from hx.inputs.misread_specs import defined_names, source_names
    from hx.packs.registry import Registry

    scheme, colon, name = incomplete.partition(":")
    sources = {source.scheme: source for source in Registry.installed().sources}
    if colon and scheme in sources:
        return [
            f"{scheme}:{each}" for each in source_names(sources[scheme]) if each.startswith(name)
        ]
    if colon and scheme.endswith(".py"):
        return [f"{scheme}:{each}" for each in defined_names(Path(scheme)) if each.startswith(name)]
    files = [f"{path}:" for path in Path().glob(f"{incomplete}*.py")] if not colon else []
    return [f"{each}:" for each in sources if each.startswith(incomplete)] + files


def complete_use(incomplete: str) -> list[str]:
    """Complete TARGET=PACK."""
    target, equals, pack = incomplete.partition("=")
    if equals:
        return [f"{target}={each}" for each in complete_pack(pack)]
    return [f"{each}=" for each in complete_target(target)]


def complete_pack(incomplete: str) -> list[str]:
    from hx.packs.installed import find

    return [pack.distribution for pack, _ in find() if pack.distribution.startswith(incomplete)]


def complete_target(incomplete: str) -> list[str]:
    from hx.packs.registry import Registry

    targets = {each.target for each in Registry.installed().registrations}
    return sorted(target for target in targets if target.startswith(incomplete))


_SPEC = typer.Argument(
    metavar="SPEC",
    help="The model: file.py:NAME, package.module:NAME, or SCHEME:NAME.",
    autocompletion=complete_spec,
    show_default=False,
)
Spec = Annotated[str, _SPEC]
OptionalSpec = Annotated[str | None, _SPEC]
Input = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        metavar="NAME=DTYPE[DIMS]",
        help='An input: "x=float32[batch,3,224,224]". A word is a size that may change; '
        'within limits: "h>=32<=512"; in multiples of 8: "h%8".',
        show_default=False,
        rich_help_panel=INPUTS,
    ),
]
Inputs = Annotated[
    Path | None,
    typer.Option(
        "--inputs",
        metavar="FILE",
        help="Inputs from a .npz, .safetensors or .pt file.",
        show_default=False,
        rich_help_panel=INPUTS,
    ),
]
ManyInputs = Annotated[
    list[Path] | None,
    typer.Option(
        "--inputs",
        metavar="FILE",
        help="Inputs from a .npz, .safetensors or .pt file; may be repeated: all further files are "
        "valid inputs at other sizes, on which the file is proved as well.",
        show_default=False,
        rich_help_panel=INPUTS,
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        "--weights",
        "-w",
        metavar="PATH",
        help="Weights: a .safetensors file, a folder or index of them, or a .pt file of tensors.",
        show_default=False,
        rich_help_panel=INPUTS,
    ),
]
Meta = Annotated[
    bool,
    typer.Option(
        "--meta",
        help="Build the model without memory for its weights; they are streamed from --weights.",
        rich_help_panel=INPUTS,
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="DTYPE",
        help="Cast weights and inputs: float16, bfloat16, float32 or float64.",
        show_default=False,
        rich_help_panel=INPUTS,
    ),
]
Dynamic = Annotated[
    list[str] | None,
    typer.Option(
        "--dynamic",
        "-d",
        metavar="NAME:AXIS=WORD,...",
        help='Axes that may change: "image:0=batch,2=height"; between sizes: "image:2=h>=32<=512"; '
        'in multiples: "image:2=h%8"; or "auto": those that hx finds and proves.',
        show_default=False,
        rich_help_panel=INPUTS,
    ),
]
Seed = Annotated[
    int,
    typer.Option("--seed", metavar="N", help="Seed of the random inputs.", rich_help_panel=INPUTS),
]
Opset = Annotated[
    int,
    typer.Option(
        "--opset", metavar="N", min=13, max=26, help="ONNX opset, 13 to 26.", rich_help_panel=OUTPUT
    ),
]
Use = Annotated[
    list[str] | None,
    typer.Option(
        "--use",
        metavar="TARGET=PACK",
        help="Use PACK's converter for TARGET, which may contain a *.",
        autocompletion=complete_use,
        show_default=False,
        rich_help_panel=PACKS,
    ),
]
NoPack = Annotated[
    list[str] | None,
    typer.Option(
        "--no-pack",
        metavar="PACK",
        help="Do not use this pack.",
        autocompletion=complete_pack,
        show_default=False,
        rich_help_panel=PACKS,
    ),
]
OnlyPacks = Annotated[
    list[str] | None,
    typer.Option(
        "--only-packs",
        metavar="PACK",
        help="Use no other packs than this one.",
        autocompletion=complete_pack,
        show_default=False,
        rich_help_panel=PACKS,
    ),
]
Require = Annotated[
    list[str] | None,
    typer.Option(
        "--require",
        metavar="PACK>=1.2",
        help="Fail unless this pack is installed and works.",
        autocompletion=complete_pack,
        show_default=False,
        rich_help_panel=PACKS,
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print JSON on stdout, for programs.", rich_help_panel=OUTPUT)
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Treat broken packs and open findings as errors.", rich_help_panel=PROOF
    ),
]


def given(context: typer.Context) -> Iterator[str]:
    """Yield the names of the options and arguments that the command line has."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            yield name


def several(texts: Iterable[str] | None) -> list[str]:
    """Split `--no-pack a,b --no-pack c` into [a, b, c]."""
    return [part.strip() for text in texts or () for part in text.split(",") if part.strip()]


def registry_for(
    use: Iterable[str] | None = None,
    no_pack: Iterable[str] | None = None,
    only_packs: Iterable[str] | None = None,
    require: Iterable[str] | None = None,
    strict: bool = False,
) -> Registry:
    """Build the registry that the pack options, pyproject and environment describe."""
    from hx.config import parse_uses
    from hx.packs.registry import Registry

    only = several(only_packs)
    return Registry.installed(
        only=only or None,
        without=several(no_pack),
        use=parse_uses(several(use)),
        require=list(require or ()),
        strict=strict,
    )


def model_and_call(
    spec: str,
    registry: Registry,
    inputs: Iterable[str] | None,
    files: Path | Sequence[Path] | None,
    weights: Path | None,
    dynamic: Iterable[str] | None = None,
    seed: int = 0,
    meta: bool = False,
    streamed: bool = False,
    automatic: bool = False,
) -> tuple[Loaded, Call]:
    """Load the model of SPEC and build the call from the input options, ready for `hx.export`.

    Of several files of inputs, the first is for the call, and the others are further inputs.
    `streamed` means that the command reads weights from their file (`loaded.weights`), and
    `automatic` that it takes `--dynamic auto`.
    """
    from hx.errors import UsageError
    from hx.inputs.given import call_for, further_inputs, names_of
    from hx.inputs.spec import load
    from hx.weights.load_weights import load_weights

    loaded = load(spec, registry.sources, hollow=meta)
    if weights is not None and streamed and _on_meta(loaded.model):
        loaded.weights = weights
    elif weights is not None and _on_meta(loaded.model):
        raise UsageError(
            f"{spec} makes a model on the meta device, and this command runs it with its weights",
            hint="make it on the CPU; hx export and hx verify stream the weights",
        )
    elif weights is not None:
        load_weights(loaded.model, weights)
    several = [files] if isinstance(files, Path) else list(files or ())
    first = several[0] if several else None
    call = call_for(loaded, inputs or (), first, dynamic or (), seed, automatic)
    for name, file in zip(names_of(several[1:]), several[1:]):
        call.others[name] = further_inputs(loaded, call, file)
    return loaded, call


def _on_meta(model: Any) -> bool:
    return any(t.is_meta for tensors in (model.parameters(), model.buffers()) for t in tensors)


def tell_broken_packs(registry: Registry) -> None:
    """Warn on stderr, in one line each, of packs that are installed and cannot be used."""
    from hx.cli.output import warn

    for pack in registry.packs:
        if pack.status in ("failed", "incompatible"):
            warn(
                f"pack {pack.key} is {pack.status} and left out: {pack.error.splitlines()[0]} "
                f"(hx packs check {pack.distribution})"
            )
