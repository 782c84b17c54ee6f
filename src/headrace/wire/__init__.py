"""Bytes to messages and back: Kafka's protocol, and nothing of what it means.

Reading order: `notation` (what a schema says), any file of `schemas`, `plan` (one version of it),
`reader_source` and `writer_source` (code from a plan), `codec` (the doors to both). `apis` lists the
requests, `framing` puts headers around them, `record_frames` does the same for messages kept in logs.
"""
