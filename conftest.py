pytest_plugins = ["gpuwire_checks.plugin"]
