-- Sessions: the clicks of a visitor belong together while less than 30 minutes lie between them. Each session is told once, when it is over.
-- Run from the project's directory: .venv/bin/tidegate run examples/sessions.sql
CREATE STREAM Click(who STRING, page STRING, t TIMESTAMP)
  SOURCE csv('examples/sessions.csv') ORDERED BY t;

SELECT who, window_start, COUNT(*) AS clicks
FROM TABLE(SESSION(TABLE Click PARTITION BY who, DESCRIPTOR(t), INTERVAL '30' MINUTE))
GROUP BY who, window_start, window_end;

-- While it lasts, a session can be seen as well: who is here, with how many clicks so far?
SELECT who, COUNT(*) AS clicks FROM Click WINDOW(PARTITION BY who SESSION 30 MINUTES)
GROUP BY who AS OF TIMESTAMP '2026-03-01 09:20:00';
