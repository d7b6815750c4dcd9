-- Network monitoring: connections whose SYN was not acknowledged within 120 ticks, told at the moment the time is up.
CREATE STREAM Packet(conn INT, flag STRING, t BIGINT)
  SOURCE csv('examples/packets.csv') ORDERED BY t;

-- DSTREAM: what leaves the window, that is, a SYN that is 120 ticks old.
SELECT S.conn
FROM DSTREAM(SELECT conn FROM Packet WINDOW(RANGE 120) WHERE flag = 'SYN') S
WHERE NOT EXISTS (SELECT 1 FROM Packet WINDOW(RANGE 120) A WHERE A.flag = 'ACK' AND A.conn = S.conn);

VERIFY
SELECT S.conn
FROM DSTREAM(SELECT conn FROM Packet WINDOW(RANGE 120) WHERE flag = 'SYN') S
WHERE NOT EXISTS (SELECT 1 FROM Packet WINDOW(RANGE 120) A WHERE A.flag = 'ACK' AND A.conn = S.conn);
