#!/usr/bin/python3
"""redis-py's Lock: acquire with a blocking_timeout, reacquire by the caller, release (docs, "Locks")."""
import sys

import redis
from redis.exceptions import LockError, RedisError

import skeleton

clients = {}


class RedisPy(skeleton.LibraryHold):
    def __init__(self, w, lock, key):
        super().__init__(w, lock, key)
        at = w.store.at
        if at["addr"] not in clients:
            host, _, port = at["addr"].rpartition(":")
            clients[at["addr"]] = redis.Redis(host=host, port=int(port), db=at.get("db", 0))
        ttl = 0 if "timeout-0" in sys.argv else self.p["ttl"] / 1e9
        # thread_local=False: a thread of its own renews, as the documents want it then
        self.lock = clients[at["addr"]].lock(self.key, timeout=ttl, blocking_timeout=self.p["ttl"] / 1e9, thread_local=False)

    def ask(self, make):
        try:
            return make()
        except LockError:  # not ours any more
            return False
        except RedisError as e:
            raise OSError("%s: %s" % (type(e).__name__, e))

    def take(self, token):
        return self.ask(lambda: self.lock.acquire(token=token))

    def extend(self):
        return self.ask(self.lock.reacquire)

    def free(self):
        return self.ask(lambda: self.lock.release() or True)


skeleton.run(RedisPy)
