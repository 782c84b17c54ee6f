"""Words every room uses: error codes, ids, the clock, byte chunks. Imports nothing of ours."""
