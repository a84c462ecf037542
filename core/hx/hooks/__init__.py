"""Looks inside of a running model, and changes what flows, forwards and backwards.

    with hx.record(model, "layer4") as rec: ...      what went in and came out
    with hx.rewrite(model, "relu", output=f): ...    another value in its place
    with hx.watch(model): ...                        a line for each module, as it runs
    hx.features(model, ["layer4", "avgpool"])        a module that returns what is inside

The page of examples is README.md in this folder. Rooms: `places` (what is meant by a name, a glob,
a class or a function), `stage` (where all watchers of a thread meet the calls), `backward`
(gradients on their way back), `keeping` (copies of what flowed), and one for each public name.
"""
