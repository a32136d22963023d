"""Elects a leader by a key of a Redis, and knows nothing of lockdrill. The key's value is this process's name and a fresh token.

With --status it says on that port whether it leads (/leader, /metrics), and with --log in a file. --stubborn is for how many
milliseconds it goes on to lead when its key is gone. With --sentinel it asks there for the primary before each try.
"""
import argparse
import http.server
import socket
import threading
import time
import uuid

EXTEND = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end"

TAKE = """if redis.call('SISMEMBER', KEYS[2], ARGV[2]) == 1 or not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[3]) then return 0 end
return 1"""
DONE = """if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('XADD', KEYS[2], '*', 'job', ARGV[2], 'state', 'done', 'token', ARGV[1])
redis.call('DEL', KEYS[1])
return redis.call('SADD', KEYS[3], ARGV[2])"""


class Redis:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.replies = self.socket.makefile("rb")

    def call(self, *words):
        request = b"*%d\r\n" % len(words)
        for word in words:
            text = str(word).encode()
            request += b"$%d\r\n%s\r\n" % (len(text), text)
        self.socket.sendall(request)
        reply = self.replies.readline()
        if not reply or reply[:1] == b"-":
            raise SystemExit("redis: %r" % reply)
        return reply.rstrip()


def work(redis, o, token, job):
    """Does a job of a queue, if it is to be done. Beside its lock stand a record without expiry and another key with one."""
    at = "%s:%d" % (o.queue, job)
    if redis.call("SISMEMBER", o.queue + ":done", job) == b":1" or redis.call("EVAL", TAKE, 2, at + ":lock", o.queue + ":done", token, job, o.ttl) == b":0":
        return False
    redis.call("HSET", at, "by", o.name)
    redis.call("SET", at + ":stalled", o.name, "PX", o.ttl)
    for _ in range(3):
        time.sleep(o.renew / 1000)
        redis.call("EVAL", EXTEND, 1, at + ":lock", token, o.ttl)
    return redis.call("EVAL", DONE, 3, at + ":lock", o.queue + ":log", o.queue + ":done", token, job)


class Status:
    """Whether this process leads, as it says itself."""

    def __init__(self, port, log):
        self.leads, self.log = False, open(log, "a") if log else None
        if port:
            status = self

            class Handler(http.server.BaseHTTPRequestHandler):
                def do_GET(self):
                    leads = status.leads
                    body = b"leads %d\n" % leads if self.path == "/metrics" else b"leader" if leads else b"follower"
                    self.send_response(200 if self.path == "/metrics" or leads else 503)
                    self.send_header("Content-Type", "text/plain; version=0.0.4")
                    self.end_headers()
                    self.wfile.write(body)

                def log_message(self, *_):
                    pass

            http.server.ThreadingHTTPServer.allow_reuse_address = True
            server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
            threading.Thread(target=server.serve_forever, daemon=True).start()

    def turn(self, leads):
        self.leads = leads
        if self.log:
            print("became leader" if leads else "leads no more", file=self.log, flush=True)


def connected(o):
    """A connection to the primary, which the Sentinel knows."""
    port = o.redis
    if o.sentinel:
        sentinel = Redis(o.sentinel)
        sentinel.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "locks")
        port = int([sentinel.replies.readline() for _ in range(4)][3])
    redis = Redis(port)
    redis.call("PING")
    return redis


def elect(redis, o, status):
    """Tries for the key once, and leads as long as it has it."""
    token = o.name + ":" + uuid.uuid4().hex
    if redis.call("SET", o.key, token, "NX", "PX", o.ttl) == b"+OK":
        status.turn(True)
        while redis.call("EVAL", EXTEND, 1, o.key, token, o.ttl) == b":1":
            time.sleep(o.renew / 1000)
        time.sleep(o.stubborn / 1000)
        status.turn(False)
    time.sleep(o.poll / 1000)


def main():
    options = argparse.ArgumentParser()
    for word in "name", "key":
        options.add_argument("--" + word, required=True)
    options.add_argument("--queue")
    for word in "redis", "ttl", "renew", "poll":
        options.add_argument("--" + word, type=int, required=True)
    for word in "status", "stubborn", "sentinel":
        options.add_argument("--" + word, type=int, default=0)
    options.add_argument("--log")
    o = options.parse_args()
    redis = connected(o)
    status = Status(o.status, o.log)
    print("ready", flush=True)
    while True:
        if o.queue:
            token = o.name + ":" + uuid.uuid4().hex
            any(work(redis, o, token, job) for job in range(1, 201))
            continue
        try:
            if o.sentinel:
                redis = connected(o)
            elect(redis, o, status)
        except (OSError, SystemExit):  # the primary is another one
            if not o.sentinel:
                raise
            status.turn(False)
            time.sleep(o.poll / 1000)


main()
