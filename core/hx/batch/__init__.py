"""Many exports: the list of models, the engine that runs them, the manifest, the results."""
