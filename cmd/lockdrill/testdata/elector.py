"""Elects a leader by a key of a Redis, and knows nothing of lockdrill. The key's value is this process's name and a fresh token."""
import argparse
import socket
import time
import uuid

EXTEND = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end"


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


def main():
    options = argparse.ArgumentParser()
    for word in "name", "key":
        options.add_argument("--" + word, required=True)
    for word in "redis", "ttl", "renew", "poll":
        options.add_argument("--" + word, type=int, required=True)
    o = options.parse_args()
    redis = Redis(o.redis)
    redis.call("PING")
    print("ready", flush=True)
    while True:
        token = o.name + ":" + uuid.uuid4().hex
        if redis.call("SET", o.key, token, "NX", "PX", o.ttl) == b"+OK":
            while redis.call("EVAL", EXTEND, 1, o.key, token, o.ttl) == b":1":
                time.sleep(o.renew / 1000)
        time.sleep(o.poll / 1000)


main()
