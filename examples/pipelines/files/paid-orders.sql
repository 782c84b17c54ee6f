-- Orders and their payments, joined while both are no older than an hour.
--
-- in orders: feed orders
--   json: id LONG, customer STRING, amount DECIMAL(10, 2), at TIMESTAMP
--   watermark: at, 5 minutes
-- in payments: feed payments
--   json: order_id LONG, paid_at TIMESTAMP
--   watermark: paid_at, 5 minutes
-- out: delta tables/paid-orders
--   partition by: day
-- trigger: every 1 minute

SELECT id, customer, amount, paid_at, to_date(paid_at) AS day
FROM orders JOIN payments
  ON id = order_id AND paid_at BETWEEN at AND at + INTERVAL 1 HOUR
