"""recipe.toml: what is trained, on what, and how."""
