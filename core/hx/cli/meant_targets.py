"""Targets and converters that a user means, by a part of a name or another name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hx.cli.usual_names import converted_inside, found_in_torch, full_name

if TYPE_CHECKING:
    from hx.packs.registry import Registry
    from hx.registration import Registration


def matching(pattern: str | None, registry: Registry) -> list[Registration]:
    """Return the converters of targets that match, or else of those known under this name."""
    matching = [each for each in registry.registrations if _matches(each.target, pattern)]
    if pattern and not matching:
        named = _known_as(pattern, registry)
        matching = [each for each in registry.registrations if each.target in named]
    return matching


def _known_as(pattern: str, registry: Registry) -> set[str]:
    """Find the targets of the converters for a name such as `Tensor.__add__` or `+`."""
    from hx.errors import HxError

    try:
        groups = meant(pattern, registry) or called_inside(pattern, registry)
    except HxError:
        return set()
    return {name for names in groups for name in names}


def _matches(target: str, pattern: str | None) -> bool:
    if not pattern:
        return True
    if any(sign in pattern for sign in "*?["):
        from fnmatch import fnmatchcase

        return fnmatchcase(target, pattern)
    return pattern.lower() in target.lower()


def meant(text: str, registry: Registry) -> list[list[str]]:
    """Find the targets that a user means, each with all names under which it is converted.

    These are the exact target, else targets that end in the text, else PyTorch's other names for it.
    There are none for a function without a converter, whose inner calls are converted.
    """
    text = full_name(text)
    known = sorted({each.target for each in registry.registrations})
    exact = [each for each in (text, f"{text}.forward") if each in known][:1]
    ends = [t for t in known if t.removesuffix(".forward").endswith((f".{text}", f"::{text}"))]
    if exact or ends:
        groups = [_names(each, registry) for each in exact or ends]
        return [names for i, names in enumerate(groups) if names not in groups[:i]]
    return _resolved(text, registry)


def called_inside(text: str, registry: Registry) -> list[list[str]]:
    """Find the converted functions that a function or module class without a converter calls."""
    from hx.errors import TargetError
    from hx.packs.targets import resolve

    text = full_name(text)
    try:
        found = resolve(text) if "." in text else found_in_torch(text)
    except TargetError:
        return []
    return converted_inside(found, registry) if found is not None else []


def near_names(text: str, registry: Registry) -> list[str]:
    """Return converted targets with a name like the text: `conv2d` for `Cnov2d`, `torch.nn.Cnov2d`."""
    import difflib

    known = {each.target for each in registry.registrations}
    text = full_name(text)
    own = text.rpartition(".")[2].rpartition(":")[2]
    asked = f"torch.nn.functional.{own.lower()}"
    names = [text]
    if own == text or text.startswith("torch."):
        if asked in known:
            return [asked]
        names = [text, asked] if own == own.lower() != text else [asked, text]
    near = next(filter(None, map(registry.nearest, names)), [])
    if not near and own != text:
        near = difflib.get_close_matches(text, sorted(known), 3, 0.5)
    return near


def _names(target: str, registry: Registry) -> list[str]:
    """Return all names of a target, because packs may use different ones."""
    from hx.errors import TargetError

    if not registry.alike(target):
        return [target]
    from hx.packs.targets import resolve

    try:
        return registry.names(resolve(target, import_missing=True).meant) or [target]
    except TargetError:  # not installed here, or no longer there
        return [target]


def _resolved(text: str, registry: Registry) -> list[list[str]]:
    from hx.errors import TargetError, UsageError

    why, other, new = "", "", f"`hx packs new my-pack --target {text}` writes a pack for it"
    if "." not in text and "::" not in text and (alone := found_in_torch(text)) is not None:
        names = registry.names(alone.meant)
        return [names] if names else []
    if "." in text or "::" in text:
        from hx.packs.targets import NotImportable, NotInstalled, resolve
        from hx.torch_facts import out_of_place

        try:
            found = resolve(text, import_missing=True)
            # An in-place function computes what its namesake does, and writes it.
            for key in (found.meant, (out_of_place(found.key), None)):
                if names := registry.names(key):
                    return [names]
            if found.function is not None or found.kind == "torch":
                return []
        except (NotInstalled, NotImportable) as problem:
            why = problem.what
        except TargetError as problem:  # the target does not exist
            why, other, new = problem.what, problem.hint, ""
    else:
        new = "a target is a dotted name: `hx scan SPEC` lists those that a model calls"
    near = near_names(text, registry)
    if near:
        dotted = "." in text or "::" in text
        other, new = f"did you mean {' or '.join(near)}?", new if dotted else ""
    hint = " ".join(filter(None, [other, new]))
    raise UsageError(f"no installed pack converts {text}", why=why, hint=hint)
