"""One call of `specbench train`: its stages, its folder, what it says about itself."""
