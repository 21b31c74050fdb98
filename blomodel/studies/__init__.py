"""What can be asked after a solve: the worst lower answer, sensitivity, diagnostics."""
