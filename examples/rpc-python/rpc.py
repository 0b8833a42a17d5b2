"""Takes part in Ropeway calls with what is documented (docs/reference/wire/rpc.md) and a plain Redis client.

    rpc.py call  jsonrpc NS SERVICE METHOD PARAMS      rpc.py call  kw PREFIX FUNC KW
    rpc.py track jsonrpc NS SERVICE METHOD PARAMS      prints the progress list, then the answer
    rpc.py serve jsonrpc NS SERVICE [NODE GROUP]       rpc.py serve kw PREFIX        serve until standard input ends
"""

import datetime
import json
import os
import sys
import threading
import time
import uuid

import redis

db = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"), decode_responses=True)


def add(a, b):
    return a + b


def divide(a, b):
    return a / b


METHODS = {"add": add, "divide": divide, "whoami": lambda: "python"}
DESCRIPTIONS = {
    "add": {"doc": "Adds two numbers.", "args": ["a", "b"], "return": "number"},
    "divide": {"doc": "Divides two numbers.", "args": ["a", "b"], "return": "number"},
    "whoami": {"doc": "Who answers.", "args": [], "return": "string"},
}


def call_jsonrpc(ns, service, method, params, extra=None):
    request = {"id": str(uuid.uuid4()), "version": "2", "method": method, "params": params, **(extra or {})}
    db.lpush(f"/api/{ns}/request/{service}", json.dumps(request))
    return request["id"]


def answer_jsonrpc(ns, request_id):
    popped = db.brpop(f"/api/{ns}/response/{request_id}", 10)
    return json.loads(popped[1]) if popped else None


def track_jsonrpc(ns, service, method, params):
    request_id = call_jsonrpc(ns, service, method, params, {"track_process": 1})
    key = f"/api/{ns}/process/{request_id}"
    polls = 0
    answer = None
    while answer is None:
        polls += 1
        text = db.rpop(f"/api/{ns}/response/{request_id}")  # a short poll: None at once
        answer = json.loads(text) if text else None
        time.sleep(0.02)
    ttl = db.ttl(key)
    reports = [json.loads(text)["percent"] for text in reversed(db.lrange(key, 0, -1))]
    return {"answer": answer, "reports": reports, "expires": 0 < ttl <= 120, "polled": polls > 1}


def serve_jsonrpc(ns, service, node="py1", group=None):
    db.sadd("/api/ns", ns)
    db.sadd(f"/api/{ns}/services", service)
    for method, description in DESCRIPTIONS.items():
        db.hset(f"/api/{ns}/desc/{service}", method, json.dumps(description))
    lists = [f"/api/{ns}/request/{service}"]
    if group:
        lists.insert(0, f"/api/{ns}/sess_req/{group}:{node}/{service}")

    def round_():
        db.set(f"/api/{ns}/works/{service}:{node}", "1", ex=10)
        if group:
            db.set(f"/api/{ns}/groups/{group}:{node}", "1", ex=10)
        popped = db.brpop(lists, 1)
        if popped is None:
            return
        request = json.loads(popped[1])
        params = request.get("params", [])
        try:
            function = METHODS[request["method"]]
            result = function(**params) if isinstance(params, dict) else function(*params)
            answer = {"id": request["id"], "result": result}
        except Exception as error:  # the caller is told, whatever it was
            answer = {"id": request["id"], "error": {"code": -32000, "message": str(error)}}
        if not request.get("notification"):
            key = f"/api/{ns}/response/{request['id']}"
            db.lpush(key, json.dumps(answer))
            db.expire(key, 120)

    def leave():
        db.delete(f"/api/{ns}/works/{service}:{node}", f"/api/{ns}/groups/{group}:{node}")

    serve(round_, leave)


def call_kw(prefix, func, kw):
    call_id = str(uuid.uuid4())
    ts = datetime.datetime.now().isoformat()
    db.rpush(f"{prefix}:{func}:calls", json.dumps({"id": call_id, "ts": ts, "kw": kw}))
    popped = db.blpop(f"{prefix}:{func}:result:{call_id}", 10)
    return json.loads(popped[1]) if popped else None


def serve_kw(prefix):
    queues = sorted(f"{prefix}:{func}:calls" for func in METHODS)

    def round_():
        db.set(f"{prefix}:python:py1:alive", "1", ex=4)
        popped = db.blpop(queues, 1)
        queues.append(queues.pop(0))  # one further each time, so that no function starves
        if popped is None:
            return
        func = popped[0][len(prefix) + 1 : -len(":calls")]
        call = json.loads(popped[1])
        result = {"ts": datetime.datetime.now().isoformat()}
        try:
            result["res"] = METHODS[func](**call["kw"])
        except Exception as error:
            result["exc"] = repr(error)
        key = f"{prefix}:{func}:result:{call['id']}"
        db.rpush(key, json.dumps(result))
        db.expire(key, 120)

    serve(round_, lambda: None)


def serve(round_, leave):
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    print("ready", flush=True)
    while not stop.is_set():
        round_()
    leave()


def main(verb, wire, *args):
    if verb == "serve":
        (serve_kw if wire == "kw" else serve_jsonrpc)(*args)
    elif wire == "kw":
        prefix, func, kw = args
        print(json.dumps(call_kw(prefix, func, json.loads(kw))))
    else:
        ns, service, method, params = args
        if verb == "track":
            print(json.dumps(track_jsonrpc(ns, service, method, json.loads(params))))
        else:
            print(json.dumps(answer_jsonrpc(ns, call_jsonrpc(ns, service, method, json.loads(params)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
