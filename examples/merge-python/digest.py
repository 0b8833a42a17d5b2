"""Takes part in a Ropeway merge queue with what is documented: docs/reference/wire/merge.md."""

import base64
import hashlib
import hmac
import http.server
import json
import os
import socket
import sys
import threading
import time
import urllib.parse
import urllib.request

MERGE_URL = os.environ.get("MERGE_URL", "http://127.0.0.1:23334")
REDIS_URL = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")
PREFIX = os.environ.get("MERGE_PREFIX", "ropeway:{merge}")
WEBHOOK_KEY = os.environ.get("WEBHOOK_KEY", "")

received = []
arrived = threading.Event()


def genuine(headers, body):
    """Whether the dispatcher signed exactly this body."""
    if not WEBHOOK_KEY:
        return True
    key = base64.b64decode(WEBHOOK_KEY[len("whsec_"):])
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    ours = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    given = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(ours, each) for each in given)


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        fine = genuine(self.headers, body)
        self.send_response(200 if fine else 401)
        self.end_headers()
        if fine:
            received.append(json.loads(body))
            arrived.set()

    def log_message(self, *args):
        pass


def redis(*commands):
    """Sends commands to Redis in one go and returns the raw replies: the protocol is that simple."""
    where = urllib.parse.urlparse(REDIS_URL)
    with socket.create_connection((where.hostname, where.port or 6379), timeout=5) as link:
        out = b""
        if where.password:
            commands = (("AUTH", urllib.parse.unquote(where.password)),) + commands
        for command in commands:
            words = [str(word).encode() for word in command]
            out += b"*%d\r\n" % len(words)
            for word in words:
                out += b"$%d\r\n%s\r\n" % (len(word), word)
        link.sendall(out)
        reader = link.makefile("rb")
        return [reader.readline().strip() for _ in commands]


def main():
    server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/digest"
    ontime = time.time() + 1

    # 1. Over HTTP.
    service = base64.urlsafe_b64encode(url.encode()).decode()
    path = f"/v3/queue/python_1/POST/{service}?update=once&ontime={ontime:.3f}"
    push = urllib.request.Request(MERGE_URL + path, data=b'{"by": "http"}', method="POST")
    with urllib.request.urlopen(push, timeout=5) as answer:
        assert answer.status == 202, answer.status

    # 2. With three plain commands: the queue is called "MERGE_KEY URL METHOD".
    key = f"python_1 {url} POST"
    redis(
        ("RPUSH", f"{PREFIX}:queue:{key}", '{"by": "redis"}'),
        ("ZADD", f"{PREFIX}:timer", "NX", f"{ontime:.3f}", key),
        ("PUBLISH", f"{PREFIX}:action:push", "insert"),
    )

    if not arrived.wait(20):
        sys.exit("nothing arrived within 20 seconds: is a dispatcher running?")
    print(json.dumps(received[0]))
    server.shutdown()


if __name__ == "__main__":
    main()
