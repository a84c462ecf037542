"""`hx export acme:regressor`: the library's models by name."""


def load(name):
    import acme_nn

    return getattr(acme_nn, name)()


def names():
    return ["regressor"]
