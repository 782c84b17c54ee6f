-- One feed for each level: logs-info, logs-error, …
--
-- in logs: feed service-logs
--   json: service STRING, level STRING, message STRING
-- out: feeds
--   key: service

SELECT concat('logs-', lower(level)) AS topic, service, message
FROM logs
WHERE level IN ('INFO', 'WARN', 'ERROR')
