"""Adds one job per file to a Ropeway queue, with a plain Redis connection.

usage: produce.py QUEUE FILE...   (REDIS_URL names the Redis)
"""
import json
import os
import socket
import sys
import time
import urllib.parse
import uuid


class Redis:
    """The part of RESP that this program needs."""

    def __init__(self, url):
        where = urllib.parse.urlparse(url)
        address = (where.hostname, where.port or 6379)
        self.file = socket.create_connection(address).makefile("rwb")
        if where.password:
            user = [where.username] if where.username else []
            self("AUTH", *user, urllib.parse.unquote(where.password))

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


queue, *files = sys.argv[1:]
redis = Redis(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"))
for file in files:
    print(add(redis, queue, "thumbnail", {"file": file, "at": time.time()}))
