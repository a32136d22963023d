"""Puts a library's lock in the place of class Hold of scenarios/workers/python/worker.py, as its first lines say."""
import os, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../scenarios/workers/python"))
import worker


class LibraryHold(worker.Hold):
    """One acquisition by a library. take(token) gives True or False, extend() and free() too; what they raise leaves open whether it took effect."""

    def __init__(self, w, lock, key):
        super().__init__(w, lock, key)
        self.valid = worker.now()

    def call(self, what, make, attempt=1):
        op, body = "%s/%d" % (self.w.incarnation, next(worker.ops)), {"attempt": attempt}
        if what in ("acquire", "renew"):
            body["ttl"] = self.p["ttl"]
        sent = worker.say(what + ".invoke", **self.names, op=op, call={**body, **({"demand": True} if what == "acquire" else {})})
        try:
            ok = make()
        except OSError as e:  # what the client raises of connections and timeouts is made one by the adapter
            ok, outcome, body["result"], body["err"] = None, "unknown", "error", str(e)[:200]
        else:
            outcome = "ok" if ok else "fail"
            words = {"acquire": ("granted", "held"), "renew": ("renewed", "other")}.get(what, ("released", "other"))
            body["result"] = words[0 if ok else 1]
        worker.say(what + ".return", **{**self.names, "from": sent}, op=op, outcome=outcome, call=body)
        return ok

    def acquire(self):
        ok = self.call("acquire", lambda: self.take(self.token))
        if ok:
            self.renewer.start()
            return True
        return None if ok is False else False

    def left(self):
        return 1 << 62  # the library does not say

    def check(self):
        return not self.lost.is_set()

    def keep(self):
        """Extends every renew_every; a failed extension ends the work."""
        while not self.ended.wait(self.p["renew_every"] / 1e9) and not self.lost.is_set():
            if not self.call("renew", self.extend) and not self.ended.is_set():
                self.give_up("not_owned")

    def release(self):
        """The end of `with lock:`, also after the lock was lost."""
        self.ended.set()
        self.renewer.join()
        self.call("release", self.free)


def run(hold):
    first = 0 if os.environ.get("LOCKDRILL_RUN", "").rpartition("/")[2].startswith("r1.") else 0.99
    worker.random.random = lambda: first  # r1 asks first, so that a drill knows who waits
    worker.Hold = hold
    worker.main()
