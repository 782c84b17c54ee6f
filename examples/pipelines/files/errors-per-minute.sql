-- Errors of every service, minute by minute; what is no JSON goes to a feed of its own.
--
-- in logs: feed service-logs
--   json: service STRING, level STRING, at TIMESTAMP, message STRING
--   watermark: at, 30 seconds
--   dead letters: service-logs-dead
-- out: feed errors-per-minute
--   key: service
-- trigger: every 10 seconds

SELECT service, window.start AS minute, count(*) AS errors
FROM logs
WHERE level = 'ERROR'
GROUP BY service, window(at, '1 minute')
