"""Pipelines in a file: feeds in, a query, a feed or a table out.

    -- Errors of every service, minute by minute.
    -- in logs: feed service-logs
    --   json: service STRING, level STRING, at TIMESTAMP
    --   watermark: at, 30 seconds
    --   dead letters: service-logs-dead
    -- out: feed errors-per-minute
    --   key: service
    -- trigger: every 10 seconds

    SELECT service, window.start AS minute, count(*) AS errors
    FROM logs
    WHERE level = 'ERROR'
    GROUP BY service, window(at, '1 minute')

The head is comments, so that the file is SQL to every editor, and the lines of Spark's errors are the file's.
`header` reads the head's lines, `spec` what they mean, `plan` makes DataFrames of it, and `runner` runs them
and ends them between two batches. A file may be Python too, with the same head in its comments and a function
`query` whose parameters are the inputs.
"""
