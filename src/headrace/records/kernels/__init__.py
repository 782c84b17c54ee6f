"""Kernels: the work for each record, written once as plain Python and compiled by numba when that is loaded.

A kernel is a function over bytes and arrays of numbers, marked `@kernel`, that makes nothing but its answer.
As it is written it runs on bytes and memoryviews: that is what serves until numba is loaded, because
importing that takes half a second and 85 MB, and a node is ready before. `compiler` makes machine code of
the same functions.

    notation            what a kernel is written in: types, and the few functions that have two forms
    records             the records of a section: checked, found, taken apart
    produce             runs of plain Produce requests
    batches             walking from batch to batch
    hashes              murmur2 for partitions, SipHash for the offset map
    compaction_*        the offset map filled, batches rewritten
    columns             records to and from Arrow's columns: only ever compiled, as no broker needs them
    choice              the kernels in use
    compiler            makes machine code of them, with numba
    machine, crc        the second forms of what `notation` has

Rules, all tested: plain and compiled answer alike and like an independent oracle (tests/records/oracles); a
number is an int64 unless it is a `Word`; nothing relies on sums that wrap around, unless words are masked.
"""
