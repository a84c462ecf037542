"""Hooks where the calls and questions of a model arrive: installed for one recording, and removed."""
