"""Views into a running model, and changes of its activations and gradients.

    with hx.record(model, "layer4") as rec: ...      what went in and came out
    with hx.rewrite(model, "relu", output=f): ...    another value in its place
    with hx.watch(model): ...                        a line for each module, as it runs
    hx.features(model, ["layer4", "avgpool"])        a module that returns what is inside

README.md in this folder shows examples. Each public name has a module here; `keeping` copies
tensors. `torchworld` has the rest: `watched_places` finds the modules and functions that a name,
glob or class means, `stage` calls the watchers of a thread, `gradient_hooks` watches gradients.
"""
