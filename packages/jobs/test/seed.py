"""The producer, the consumer and the mover of the seed document, on a RESP client of thirty lines.

Everything below the client is the document's own program (Redis in Action, chapter 6): only its
arguments for zadd are in today's order, and bytes are decoded.
"""
import json
import socket
import sys
import time
import uuid


class Redis:
    def __init__(self, port):
        self.file = socket.create_connection(("127.0.0.1", port)).makefile("rwb")

    def __call__(self, *words):
        words = [str(word).encode() for word in words]
        self.file.write(b"*%d\r\n" % len(words))
        for word in words:
            self.file.write(b"$%d\r\n%s\r\n" % (len(word), word))
        self.file.flush()
        return self.reply()

    def reply(self):
        line = self.file.readline()[:-2]
        kind, rest = line[:1], line[1:]
        if kind == b"*":
            return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2].decode()
        if kind == b"-":
            raise RuntimeError(rest.decode())
        return int(rest) if kind == b":" else rest.decode()


def execute_later(conn, queue, name, args, delay=0):
    identifier = str(uuid.uuid4())
    item = json.dumps([identifier, queue, name, args])
    if delay > 0:
        conn("ZADD", "delayed:", time.time() + delay, item)
    else:
        conn("RPUSH", "queue:" + queue, item)
    return identifier


def poll_queue(conn, until):
    while time.time() < until:
        item = conn("ZRANGE", "delayed:", 0, 0, "WITHSCORES")
        if not item or float(item[1]) > time.time():
            time.sleep(.01)
            continue
        item = item[0]
        identifier, queue, function, args = json.loads(item)
        if conn("ZREM", "delayed:", item):
            conn("RPUSH", "queue:" + queue, item)


def worker_watch_queues(conn, queues, count):
    for _ in range(count):
        packed = conn("BLPOP", *["queue:" + queue for queue in queues], 30)
        if not packed:
            continue
        item = json.loads(packed[1])
        name, args = item[-2:]  # both forms end like this
        print(json.dumps([packed[0], name, args]), flush=True)


conn = Redis(int(sys.argv[1]))
if sys.argv[2] == "produce":
    for i in range(20):
        conn("RPUSH", "queue:mail", json.dumps(["send", [i, "simple"]]))
    for i in range(20, 40):
        execute_later(conn, "mail", "send", [i, "four"])
    for i in range(40, 50):
        execute_later(conn, "mail", "send", [i, "delayed"], .2 + (i - 40) / 100)
    print("produced", flush=True)
elif sys.argv[2] == "consume":
    worker_watch_queues(conn, sys.argv[4].split(","), int(sys.argv[3]))
else:
    poll_queue(conn, time.time() + float(sys.argv[3]))
