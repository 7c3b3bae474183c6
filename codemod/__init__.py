"""The codemod: reads a plain PyTorch training script and writes the distributed one. Never imports torch."""
