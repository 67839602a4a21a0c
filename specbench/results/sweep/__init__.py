"""Sweeps: which K pays at which load, decided from runs; nothing here decodes."""
