"""What this pack gives to hx."""

HX_API = 1


def hx_converters():
    return ["hx_ort.converters", "hx_ort.language"]
