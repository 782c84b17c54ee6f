"""Independent versions of kernels: other code, the same answers. Nothing but tests uses them."""
