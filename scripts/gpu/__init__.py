"""What only a GPU can show: ``scripts/gpu_check`` runs the parts and writes results/gpu.json."""
