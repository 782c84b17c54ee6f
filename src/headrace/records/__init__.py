"""Record batch v2, its codecs and its kernels: one format for the wire, the disk and the clients.

Importing this room brings in neither numba nor numpy: `kernels.choice.load_compiled` does, when asked to.
"""
