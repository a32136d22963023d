#!/usr/bin/env python3
"""A healthy lockdrill worker with the standard library only: jobs and leader loops under locks on Redis. Linux, Python 3.8 or later.

Copy it, and put your own lock in place of class Hold. docs/worker-protocol.md describes every line that it reads and writes;
`lockdrill run worker-check -- python3 worker.py` says whether it still does what it must. It gives a lock up as class `standard` does,
asks for a key once for each offer (acquire.mode try), keeps a loop's key or releases it (mode renewed, explicit), and speaks to a Redis without TLS.
"""
import hashlib, json, os, random, secrets, signal, socket, sys, threading, time

now = time.monotonic_ns  # CLOCK_MONOTONIC, the runner's clock as well
ACQUIRE = """local t = redis.call('TIME')
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])} end
local fence = math.max(t[1] * 1000000 + t[2], (redis.call('GET', KEYS[2]) or 0) + 1)
redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', 86400000)
return string.format('%.0f', fence)"""
IF_MINE = "local v = redis.call('GET', KEYS[1]) if v == ARGV[1] then return redis.call(%s) end return v or ''"
RENEW, RELEASE = IF_MINE % "'PEXPIRE', KEYS[1], ARGV[2]", IF_MINE % "'DEL', KEYS[1]"
said, ops, stopping = threading.Lock(), iter(range(1, 1 << 62)), threading.Event()


def fingerprint(token): return hashlib.sha256(token.encode()).hexdigest()[:12]


def out(line):
    os.write(1, line)  # nothing waits in a buffer: what announces a call must be out before the call is made


def say(kind, **event):
    """Writes one line, and returns its from."""
    at = now()
    event = {"kind": kind, "from": at, "to": at if "from" not in event else now(), **event}
    with said:
        out(json.dumps(event).encode() + b"\n")
    return event["from"]


class Redis:
    """As many connections as calls at a time. One whose call failed is closed: its reply could come late, for another call."""

    def __init__(self, at):
        self.at, self.prefix, self.free = at, at.get("prefix", ""), []
        if at.get("tls"):
            raise ValueError("this worker does not speak TLS")

    def dial(self, timeout):
        host, _, port = self.at["addr"].rpartition(":")
        conn = socket.create_connection((host.strip("[]"), int(port)), timeout)
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        lines = conn.makefile("rb")
        user, password = (os.environ.get(self.at.get(v) or "", "") for v in ("username_env", "password_env"))
        for command in [["AUTH", *([user] if user else []), password]] * bool(password) + [["SELECT", self.at.get("db", 0)]]:
            self.ask(conn, lines, command)
        return conn, lines

    def ask(self, conn, lines, command):
        words = [str(w).encode() for w in command]
        conn.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        return self.reply(lines)

    def reply(self, lines):
        line = lines.readline()
        kind, rest = line[:1], line[1:-2]
        if not line.endswith(b"\r\n") or kind == b"-":
            raise OSError("redis: " + (rest.decode() or "connection closed"))
        if kind == b"$" and int(rest) >= 0:
            return lines.read(int(rest) + 2)[:-2].decode()
        return [self.reply(lines) for _ in range(int(rest))] if kind == b"*" else None if kind == b"$" else int(rest) if kind == b":" else rest.decode()

    def call(self, timeout, *command):
        """Raises OSError where no reply came in time: then nobody knows whether the command took effect."""
        if timeout <= 0:
            raise OSError("no time left")
        until = time.monotonic() + timeout
        conn, lines = self.free.pop() if self.free else self.dial(timeout)
        try:
            conn.settimeout(max(until - time.monotonic(), 0.001))  # a reply comes in one piece, so this bounds the call
            answer = self.ask(conn, lines, command)
        except BaseException:
            conn.close()
            raise
        self.free.append((conn, lines))
        return answer


class Hold:
    """One acquisition of a key, from its attempt to its release: a token, a fence, the lease that may be relied on, its renewals."""

    def __init__(self, w, lock, key):
        self.w, self.p, self.token = w, lock["policy"], secrets.token_hex(16)  # a token is never used twice
        self.names = {"lock": lock["name"], "key": key, "epoch": fingerprint(self.token)}
        self.key, self.fence_key = w.store.prefix + key, "{" + w.store.prefix + key + "}:fence"  # one slot of a cluster
        self.fence, self.begun, self.turn = 0, False, threading.Lock()
        self.lost, self.ended, self.renewer = threading.Event(), threading.Event(), threading.Thread(target=self.keep)

    def call(self, what, timeout, script, *args, attempt=1):
        """Announces, makes and reports one call. Returns its reply (None: unknown), and when it was sent."""
        op, body = "%s/%d" % (self.w.incarnation, next(ops)), {"attempt": attempt}
        if what in ("acquire", "renew"):
            body["ttl"] = self.p["ttl"]
        sent = say(what + ".invoke", **self.names, op=op, call={**body, **({"demand": True} if what == "acquire" else {})})
        try:
            reply = self.w.store.call(timeout / 1e9, "EVAL", script, 2, self.key, self.fence_key, *args)
            boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        except OSError as e:
            reply, outcome, body["result"], body["err"] = None, "unknown", "error", type(e).__name__
        else:
            if isinstance(reply, list):
                outcome, body["result"], body["holder"], body["pttl"] = "fail", "held", fingerprint(reply[0] or ""), reply[1] * 1000000
            elif what == "acquire":
                outcome, body["result"], self.fence = "ok", "granted", int(reply)
            elif reply == 1:
                outcome, body["result"] = "ok", {"renew": "renewed"}.get(what, "released")
            else:
                outcome, body["result"] = "fail", "other" if reply else "absent"
            if outcome == "ok" and "ttl" in body:  # a lease counts from when it was asked for, also on the clock that goes on in a suspended machine
                lease = self.p["ttl"] - self.p.get("drift", 0)
                self.valid, self.valid_boot = sent + lease, boot - (now() - sent) + lease
        fence = {"fence": self.fence} if self.fence else {}
        say(what + ".return", **{**self.names, "from": sent}, **fence, op=op, outcome=outcome, call=body)
        return reply

    def acquire(self):
        """True, None for held by another, False for unknown: then it is given back, so that it is nobody's for the whole TTL."""
        reply = self.call("acquire", self.p["acquire"]["timeout"], ACQUIRE, self.token, self.p["ttl"] // 1000000)
        if isinstance(reply, str):
            self.renewer.start()
            return True
        until = now() + self.p["ttl"]
        while reply is None and now() < until and self.call("undo", self.p["op_timeout"], RELEASE, self.token) is None:
            time.sleep(0.05)
        return None if reply else False

    def left(self):
        """How long the work may go on, in ns."""
        return min(self.valid - now(), self.valid_boot - time.clock_gettime_ns(time.CLOCK_BOOTTIME)) - self.p.get("stop_budget", 0)

    def check(self):
        """To be asked before every effect: whoever was paused is here before the thread that renews."""
        if not self.lost.is_set() and self.left() <= 0:
            self.give_up("deadline")
        return not self.lost.is_set()

    def give_up(self, reason):
        with self.turn:
            if not self.lost.is_set():
                self.lost.set()
                for kind in ("fence.observed", "abandon"):
                    say(kind, **self.names, fence=self.fence, abandon={"reason": reason})

    def keep(self):
        """Renews until the work has ended, or the lock is lost, or time is up: no call outlasts what is left of the lease."""
        every = self.p["renew_every"] or self.p["ttl"]
        due = self.valid - self.p["ttl"] + self.p.get("drift", 0) + every
        while not self.ended.wait(max(0, min(due - now(), self.left())) / 1e9) and self.check():
            if now() < due:
                continue
            due = now() + every
            reply = self.call("renew", min(self.p["op_timeout"], self.left()), RENEW, self.token, self.p["ttl"] // 1000000)
            if reply is not None and reply != 1:
                self.give_up("not_owned")

    def release(self):
        """The work has stopped. Renewals stop next, and only then is the key given back."""
        self.ended.set()
        self.renewer.join()
        r = self.p["release"]
        if r["mode"] == "none" or self.lost.is_set() and r.get("after_abandon") != "if_work_stopped":
            say("release.skipped", **self.names, call={"why": "after_abandon" if self.lost.is_set() else "ttl_hold"})
            return
        for attempt in range(1, 1 + max(1, r.get("attempts", 1))):
            if self.call("release", r["timeout"], RELEASE, self.token, attempt=attempt) is not None:
                return


class Worker:
    def __init__(self, c):
        self.c, self.incarnation, self.store, self.ledger = c, c["incarnation"], Redis(c["store"]), Redis(c["ledger"])
        self.locks, self.jobs, self.threads = {l["name"]: l for l in c["locks"]}, set(), []
        for p in (l["policy"] for l in c["locks"]):
            if p["acquire"]["mode"] != "try" or (p.get("loop") or {}).get("mode", "renewed") not in ("renewed", "explicit"):
                raise ValueError("this worker knows acquire.mode try and loop.mode renewed or explicit")
        for r in (self.store, self.ledger):
            r.call(15, "PING")
        say("replica.ready", replica={"name": c["name"], "incarnation": self.incarnation, "pid": os.getpid()})
        for l in c["locks"]:
            if l["policy"].get("loop"):
                self.start(self.loop, l)

    def start(self, do, *args):
        self.threads = [t for t in self.threads if t.is_alive()] + [threading.Thread(target=do, args=args)]
        self.threads[-1].start()

    def seek(self, lock, key):
        """A hold, or None: the key is another's, or False: nobody knows. Every attempt has a token of its own."""
        hold = Hold(self, lock, key)
        got = hold.acquire()
        return hold if got else got

    def write(self, hold, lock, subject, state, loop=False, terminal=False):
        """One effect: why the work must end, or "", and whether the job was finished before. A repetition has the same op."""
        op, p = "%s/%d" % (self.incarnation, next(ops)), self.ledger.prefix + "{ledger}:"
        body = {"subject": subject, "state": state, "terminal": terminal}
        for _ in range(3):
            if not hold.check():
                return "fenced", False
            sent = say("write.invoke", **hold.names, fence=hold.fence, op=op, write=body)
            try:
                reply = self.ledger.call(min(2, hold.left() / 1e9), "EVAL", self.c["script"], 4, p + "entries", p + "marks", p + "subjects",
                                         p + "answers", hold.names["key"], subject, int(loop), state, int(terminal), hold.names["epoch"],
                                         hold.fence, op, self.incarnation, int(lock["unfenced"]), int(lock["strict"]))
                outcome, more = "ok", {"accepted": reply[1] == 1, "reason": reply[2], "current": reply[3]}
            except OSError as e:
                outcome, more = "unknown", {"err": type(e).__name__}
            say("write.return", **{**hold.names, "from": sent}, fence=hold.fence, op=op, outcome=outcome, write={**body, **more})
            if outcome == "ok":
                return "" if more["accepted"] else "refused", reply[4] == 1
        return "error", False

    def labour(self, hold, length):
        """The work itself: it ends early where the lock is lost, or the worker is told to stop."""
        ends = now() + length
        while now() < ends:
            if stopping.is_set() or hold.lost.wait(min(ends - now(), 20000000) / 1e9):
                return "fenced" if hold.lost.is_set() else "stopped"
        return ""

    def work(self, hold, subject, do):
        """One stretch of work under a lock. It has stopped when this returns why."""
        op = "%s/%d" % (self.incarnation, next(ops))
        say("work.enter", **hold.names, fence=hold.fence, op=op, work={"subject": subject})
        why = do()
        say("work.exit", **hold.names, fence=hold.fence, op=op, work={"subject": subject, "why": why, "valid": hold.valid - now(), "has_valid": True})
        return why

    def job(self, o):
        lock, ack = self.locks[o["lock"]], {}

        def do():
            why, finished = self.write(hold, lock, o["job"], "begin")  # first: it raises the ledger's fence, so what it returns is final for older holders
            if not why and finished and not lock["no_look"]:
                return "skipped"
            return why or self.labour(hold, o["hold"]) or self.write(hold, lock, o["job"], "done", terminal=True)[0] or "done"

        hold = self.seek(lock, o["key"])
        if hold:
            why = self.work(hold, o["job"], do)
            hold.release()
            ack = {"ack": why} if why in ("done", "skipped") else {}  # no answer: the job is offered again
        elif hold is None:
            ack = {"ack": "busy"}
        self.jobs.discard(o["job"])
        if ack:
            say("job.ack", lock=o["lock"], key=o["key"], job={"id": o["job"], **ack})

    def loop(self, lock):
        """A leader loop: whoever gets the key, or has it, does one tick every poll; the others ask once every poll."""
        p, name, hold, due = lock["policy"]["loop"], lock["name"], None, now() + random.random() * lock["policy"]["loop"]["poll"]

        def do():
            if not hold.begun:
                why, _ = self.write(hold, lock, name, "begin", loop=True)
                if why:
                    return why
                hold.begun = True
            if p.get("effect") == "after":
                return self.labour(hold, p["tick"]) or self.write(hold, lock, name, "tick", loop=True)[0] or "done"
            return self.write(hold, lock, name, "tick", loop=True)[0] or self.labour(hold, p["tick"]) or "done"

        while not stopping.is_set():
            if hold and hold.lost.is_set():
                hold = hold.release()
            if now() < due:
                stopping.wait(min(due - now(), 20000000) / 1e9)
                continue
            due = max(now(), due + p["poll"] * (1 + p.get("jitter", 0) * random.uniform(-1, 1)))  # ticks are not made up for
            hold = hold or self.seek(lock, lock["key"]) or None
            if hold:
                why = self.work(hold, name, do)
                if why != "done" or p["mode"] == "explicit":
                    hold = hold.release()
        if hold:
            hold.release()

    def obey(self, c):
        if c["cmd"] == "offer" and not stopping.is_set() and c["offer"]["job"] not in self.jobs:  # an offer of a job under way is a repetition
            self.jobs.add(c["offer"]["job"])
            self.start(self.job, c["offer"])
        elif c["cmd"] == "arm":  # it makes no faults: the shot is void
            a = c["arm"]
            kind = "clock" if a["op"] == "clock" else a["op"] + "_failures"
            say("fault.reverted", op="%s#%d" % (a["fault"], a["shot"]), fault={"id": a["fault"], "shot": a["shot"], "kind": kind, "form": a["mode"]})


def listen():
    worker = None
    for line in sys.stdin:
        c = json.loads(line)
        if c.get("v", 0) > 1 or c["cmd"] == "crash":
            os._exit(137 if c["cmd"] == "crash" else 2)
        if c["cmd"] == "stop":
            break
        if c["cmd"] == "configure":
            worker = Worker(c["configure"])
            workers.append(worker)
        else:
            worker.obey(c)
    stopping.set()  # told to, or the runner is dead


def broken(args):  # a thread that dies alone would leave its key behind in silence
    sys.__excepthook__(args.exc_type, args.exc_value, args.exc_traceback)
    os._exit(1)


def main():
    threading.excepthook = broken
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    threading.Thread(target=listen, daemon=True).start()
    stopping.wait()
    for thread in [t for w in workers for t in w.threads]:
        thread.join()
    os._exit(0)  # listen may still wait for a line


workers = []
if __name__ == "__main__":
    main()
