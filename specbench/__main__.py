"""``python -m specbench``, which ``torchrun -m specbench`` starts."""

from specbench.cli.main import main

main()
