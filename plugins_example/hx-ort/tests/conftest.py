pytest_plugins = ["hx.testing.plugin"]
