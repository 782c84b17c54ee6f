"""Direct reading: tasks take records out of a broker's files by themselves, and no broker pays for a byte.

`manifest` says which files and how far, `rows` reads them; what the files lack is fetched from a broker where
there is one.
"""
