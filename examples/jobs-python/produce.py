"""Adds one job per file to a Ropeway queue, with a plain Redis connection.

usage: produce.py HOST PORT QUEUE FILE...
"""
import json
import socket
import sys
import time
import uuid


class Redis:
    """As much of RESP as is needed here."""

    def __init__(self, host, port):
        self.file = socket.create_connection((host, port)).makefile("rwb")

    def __call__(self, *words):
        words = [str(word).encode() for word in words]
        self.file.write(b"*%d\r\n" % len(words))
        for word in words:
            self.file.write(b"$%d\r\n%s\r\n" % (len(word), word))
        self.file.flush()
        return self.reply()

    def reply(self):
        kind, rest = self.file.read(1), self.file.readline()[:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind == b"$" and rest != b"-1":
            return self.file.read(int(rest) + 2)[:-2].decode()
        return rest.decode()


def add(redis, queue, name, data):
    unit = "ropeway:jobs:{%s}:" % queue
    job = str(uuid.uuid4())
    seconds, micros = redis("TIME")
    added = int(seconds) * 1000 + int(micros) // 1000
    redis("MULTI")
    redis("HSET", unit + "jobs", job, "%d;0;0;\n%s\n%s" % (added, name, json.dumps(data)))
    redis("RPUSH", unit + "wait", job)
    redis("ZADD", unit + "wake", 0, 0)
    redis("SADD", "ropeway:jobs:queues", queue)
    redis("EXEC")
    return job


host, port, queue, *files = sys.argv[1:]
redis = Redis(host, int(port))
for file in files:
    print(add(redis, queue, "thumbnail", {"file": file, "at": time.time()}))
