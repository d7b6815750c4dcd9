-- Orders and payments: which orders were paid within ten minutes, and which were not?
-- Run from the project's directory: .venv/bin/tidegate run examples/payments.sql
CREATE STREAM Orders(id INT, amount INT, t TIMESTAMP) SOURCE csv('examples/orders.csv') ORDERED BY t;
CREATE STREAM Payment(order_id INT, paid INT, t TIMESTAMP) SOURCE csv('examples/payments.csv') ORDERED BY t;

-- Paid in time: a payment, at its instant, meets the orders of the last ten minutes.
SELECT o.id, o.amount, p.paid FROM Payment p JOIN Orders WINDOW(RANGE 10 MINUTES) o ON o.id = p.order_id;

-- Not paid in time: DSTREAM is what leaves the window, so an order shows at the moment at which its ten minutes are over.
SELECT o.id FROM DSTREAM(SELECT id FROM Orders WINDOW(RANGE 10 MINUTES)) o
WHERE NOT EXISTS (SELECT 1 FROM Payment WINDOW(RANGE 10 MINUTES) p WHERE p.order_id = o.id);

VERIFY SELECT o.id FROM DSTREAM(SELECT id FROM Orders WINDOW(RANGE 10 MINUTES)) o
WHERE NOT EXISTS (SELECT 1 FROM Payment WINDOW(RANGE 10 MINUTES) p WHERE p.order_id = o.id);
