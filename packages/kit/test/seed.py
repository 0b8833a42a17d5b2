"""The programs of the document (Redis in Action, chapter 6), on a RESP client of thirty lines.

Everything below the client is the document's own code (skewed() sets its clock). Only these are different: the order of zadd's
arguments is today's, bytes are decoded, zip() is made a list, and a pipeline is MULTI ... EXEC.
Usage: seed.py PORT FUNCTION [JSON arguments]; prints the result as JSON.
"""
import json
import math
import os
import socket
import sys
import time
import uuid


class Redis:
    def __init__(self, port):
        self.file = socket.create_connection(("127.0.0.1", port)).makefile("rwb")

    def __call__(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
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
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2].decode("utf-8", "surrogateescape")
        if kind == b"-":
            raise RuntimeError(rest.decode())
        return int(rest) if kind == b":" else rest.decode()

    def pipeline(self, *commands):
        self("MULTI")
        for command in commands:
            self(*command)
        return self("EXEC")

    def zrange(self, key, first, last):
        flat = self("ZRANGE", key, first, last, "WITHSCORES")
        return [(flat[i], float(flat[i + 1])) for i in range(0, len(flat), 2)]


def acquire_lock(conn, lockname, timeout=10):
    identifier = str(uuid.uuid4())
    end = time.time() + timeout
    while time.time() < end:
        if conn("SETNX", "lock:" + lockname, identifier):
            return identifier
        time.sleep(.001)
    return False


def acquire_lock_with_timeout(conn, lockname, acquire_timeout=10, lock_timeout=10):
    identifier = str(uuid.uuid4())
    lockname = "lock:" + lockname
    lock_timeout = int(math.ceil(lock_timeout))
    end = time.time() + acquire_timeout
    while time.time() < end:
        if conn("SET", lockname, identifier, "EX", lock_timeout, "NX"):
            return identifier
        time.sleep(.001)
    return False


def release_lock(conn, lockname, identifier):
    key = "lock:" + lockname
    while True:
        conn("WATCH", key)
        if conn("GET", key) == identifier:
            if conn.pipeline(("DEL", key)) is None:
                continue
            return True
        conn("UNWATCH")
        break
    return False


def create_chat(conn, sender, recipients, message, chat_id=None):
    chat_id = chat_id or str(conn("INCR", "ids:chat:"))
    recipients.append(sender)
    commands = [["ZADD", "chat:" + chat_id]]
    for rec in recipients:
        commands[0] += [0, rec]
    for rec in recipients:
        commands.append(["ZADD", "seen:" + rec, 0, chat_id])
    conn.pipeline(*commands)
    return send_message(conn, chat_id, sender, message)


def send_message(conn, chat_id, sender, message, pause=0):
    identifier = acquire_lock(conn, "chat:" + chat_id)
    if not identifier:
        raise Exception("Couldn't get the lock")
    try:
        mid = conn("INCR", "ids:" + chat_id)
        time.sleep(pause)
        packed = json.dumps({"id": mid, "ts": time.time(), "sender": sender, "message": message})
        conn("ZADD", "msgs:" + chat_id, mid, packed)
    finally:
        release_lock(conn, "chat:" + chat_id, identifier)
    return chat_id


def fetch_pending_messages(conn, recipient):
    seen = conn.zrange("seen:" + recipient, 0, -1)
    replies = [conn("ZRANGEBYSCORE", "msgs:" + chat_id, seen_id + 1, "inf") for chat_id, seen_id in seen]
    chat_info = list(zip(seen, replies))
    commands = []
    for i, ((chat_id, seen_id), messages) in enumerate(chat_info):
        if not messages:
            continue
        messages[:] = map(json.loads, messages)
        seen_id = messages[-1]["id"]
        conn("ZADD", "chat:" + chat_id, seen_id, recipient)
        min_id = conn.zrange("chat:" + chat_id, 0, 0)
        commands.append(("ZADD", "seen:" + recipient, seen_id, chat_id))
        if min_id:
            commands.append(("ZREMRANGEBYSCORE", "msgs:" + chat_id, 0, min_id[0][1]))
        chat_info[i] = (chat_id, messages)
    conn.pipeline(*commands)
    return chat_info


def join_chat(conn, chat_id, user):
    message_id = int(conn("GET", "ids:" + chat_id))
    conn.pipeline(
        ("ZADD", "chat:" + chat_id, message_id, user),
        ("ZADD", "seen:" + user, message_id, chat_id))


def leave_chat(conn, chat_id, user):
    replies = conn.pipeline(
        ("ZREM", "chat:" + chat_id, user),
        ("ZREM", "seen:" + user, chat_id),
        ("ZCARD", "chat:" + chat_id))
    if not replies[-1]:
        conn.pipeline(("DEL", "msgs:" + chat_id), ("DEL", "ids:" + chat_id))
    else:
        oldest = conn.zrange("chat:" + chat_id, 0, 0)
        conn("ZREMRANGEBYSCORE", "msgs:" + chat_id, 0, oldest[0][1])


def acquire_fair_semaphore(conn, semname, limit, timeout=10):
    identifier = str(uuid.uuid4())
    czset = semname + ":owner"
    ctr = semname + ":counter"
    now = time.time()
    counter = conn.pipeline(
        ("ZREMRANGEBYSCORE", semname, "-inf", now - timeout),
        ("ZINTERSTORE", czset, 2, czset, semname, "WEIGHTS", 1, 0),
        ("INCR", ctr))[-1]
    rank = conn.pipeline(
        ("ZADD", semname, now, identifier),
        ("ZADD", czset, counter, identifier),
        ("ZRANK", czset, identifier))[-1]
    if rank < limit:
        return identifier
    release_fair_semaphore(conn, semname, identifier)
    return None


def release_fair_semaphore(conn, semname, identifier):
    return conn.pipeline(
        ("ZREM", semname, identifier),
        ("ZREM", semname + ":owner", identifier))[0]


def acquire_semaphore_with_lock(conn, semname, limit, timeout=10):
    identifier = acquire_lock(conn, semname, .01)
    if identifier:
        try:
            return acquire_fair_semaphore(conn, semname, limit, timeout)
        finally:
            release_lock(conn, semname, identifier)
    return None


def add_update_contact(conn, user, contact):
    ac_list = "recent:" + user
    conn.pipeline(
        ("LREM", ac_list, 1, contact),
        ("LPUSH", ac_list, contact),
        ("LTRIM", ac_list, 0, 99))


def fetch_autocomplete_list(conn, user, prefix):
    candidates = conn("LRANGE", "recent:" + user, 0, -1)
    return [candidate for candidate in candidates if candidate.lower().startswith(prefix.lower())]


valid_characters = "`abcdefghijklmnopqrstuvwxyz{"


def find_prefix_range(prefix):
    posn = valid_characters.index(prefix[-1:])
    suffix = valid_characters[(posn or 1) - 1]
    return prefix[:-1] + suffix + "{", prefix + "{"


def autocomplete_on_prefix(conn, guild, prefix):
    start, end = find_prefix_range(prefix)
    identifier = str(uuid.uuid4())
    start += identifier
    end += identifier
    zset_name = "members:" + guild
    conn("ZADD", zset_name, 0, start, 0, end)
    while True:
        conn("WATCH", zset_name)
        sindex = conn("ZRANK", zset_name, start)
        eindex = conn("ZRANK", zset_name, end)
        erange = min(sindex + 9, eindex - 2)
        replies = conn.pipeline(
            ("ZREM", zset_name, start),
            ("ZREM", zset_name, end),
            ("ZRANGE", zset_name, sindex, erange))
        if replies is None:
            continue
        return [item for item in replies[-1] if "{" not in item]


def join_guild(conn, guild, user):
    conn("ZADD", "members:" + guild, 0, user)


def leave_guild(conn, guild, user):
    conn("ZREM", "members:" + guild, user)


def copy_logs_to_redis(conn, path, channel, count=10, limit=2 ** 30, quit_when_done=True):
    bytes_in_redis = 0
    waiting = []
    create_chat(conn, "source", list(map(str, range(count))), "", channel)
    for logfile in sorted(os.listdir(path)):
        full_path = os.path.join(path, logfile)
        fsize = os.stat(full_path).st_size
        while bytes_in_redis + fsize > limit:
            cleaned = _clean(conn, channel, waiting, count)
            if cleaned:
                bytes_in_redis -= cleaned
            else:
                time.sleep(.25)
        with open(full_path, "rb") as inp:
            block = " "
            while block:
                block = inp.read(2 ** 17)
                conn("APPEND", channel + logfile, block)
        send_message(conn, channel, "source", logfile)
        bytes_in_redis += fsize
        waiting.append((logfile, fsize))
    if quit_when_done:
        send_message(conn, channel, "source", ":done")
    while waiting:
        cleaned = _clean(conn, channel, waiting, count)
        if cleaned:
            bytes_in_redis -= cleaned
        else:
            time.sleep(.25)


def _clean(conn, channel, waiting, count):
    if not waiting:
        return 0
    w0 = waiting[0][0]
    if (conn("GET", channel + w0 + ":done") or "0") >= str(count):
        conn("DEL", channel + w0, channel + w0 + ":done")
        return waiting.pop(0)[1]
    return 0


def process_logs_from_redis(conn, id):
    lines = []
    end = time.time() + 20
    while time.time() < end:
        fdata = fetch_pending_messages(conn, id)
        for ch, mdata in fdata:
            if not isinstance(ch, str):
                time.sleep(.01)
                continue
            for message in mdata:
                logfile = message["message"]
                if logfile == ":done":
                    return lines
                elif not logfile:
                    continue
                content = conn("GET", ch + logfile)
                lines += [[logfile, line] for line in content.splitlines()]
                conn("INCR", ch + logfile + ":done")
    return None


def hold_lock(conn, lockname, until):
    identifier = acquire_lock(conn, lockname)
    print(json.dumps("holding"), flush=True)
    while not conn("EXISTS", until):
        time.sleep(.01)
    return release_lock(conn, lockname, identifier)


def count_under_lock(conn, lockname, times):
    for _ in range(times):
        identifier = acquire_lock_with_timeout(conn, lockname)
        value = int(conn("GET", "counted") or 0)
        conn("SET", "counted", value + 1)
        release_lock(conn, lockname, identifier)


def count_under_semaphore(conn, semname, limit, times):
    highest = 0
    done = 0
    while done < times:
        identifier = acquire_semaphore_with_lock(conn, semname, limit)
        if not identifier:
            time.sleep(.001)
            continue
        highest = max(highest, conn("INCR", "inside"))
        time.sleep(.002)
        conn("DECR", "inside")
        release_fair_semaphore(conn, semname, identifier)
        done += 1
    return highest


def skewed(conn, offset, name, *args):
    real = time.time
    time.time = lambda: real() + offset
    return globals()[name](conn, *args)


def send_many(conn, chat_id, sender, count):
    for i in range(count):
        send_message(conn, chat_id, sender, [sender, i], .0005)


if __name__ == "__main__":
    redis = Redis(int(sys.argv[1]))
    arguments = json.loads(sys.argv[3]) if len(sys.argv) > 3 else []
    print(json.dumps(globals()[sys.argv[2]](redis, *arguments)))
