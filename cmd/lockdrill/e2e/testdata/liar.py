"""A worker that is wrong in one thing: `liar.py --lie NAME`. But for that it is scenarios/workers/python/worker.py, which it loads.

For tests only. A lie is a function that changes the loaded worker before it starts.
"""
import importlib.util, json, os, signal, sys, time

here = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("worker", os.path.join(here, "../../../../scenarios/workers/python/worker.py"))
w = importlib.util.module_from_spec(spec)
spec.loader.exec_module(w)

honest_call, honest_out, honest_say = w.Redis.call, w.out, w.say
lies = {}


def lie(f):
    lies[f.__name__.replace("_", "-")] = f
    return f


def on_call(change):
    """change(send, *command) answers in place of the store; send sends a command."""
    def call(self, timeout, *command):
        return change(lambda *c: honest_call(self, timeout, *c), *command)
    w.Redis.call = call


def on_script(script, change):
    on_call(lambda send, *c: change(send, *c) if c[:2] == ("EVAL", script) else send(*c))


def on_line(change):
    """change(event) gives what is written in its place; None = nothing."""
    def out(line):
        event = change(json.loads(line))
        if event is not None:
            honest_out(json.dumps(event).encode() + b"\n")
    w.out = out


# Lies about the store.
@lie
def claimed_grant():
    def change(send, *c):
        reply = send(*c)
        return "1795000000000000" if isinstance(reply, list) else reply
    on_script(w.ACQUIRE, change)


# Lies about time, and lines that come late or never.
@lie
def unflushed_lines(): w.out = lambda line: None

@lie
def late_lines():
    waiting = []
    def out(line):
        waiting.append(line)
        if b".invoke" not in line:
            honest_out(b"".join(waiting))
            waiting.clear()
    w.out = out

@lie
def silent_renewals(): on_line(lambda e: None if e["kind"].startswith("renew.") else e)

@lie
def silent_loss(): on_line(lambda e: None if e["kind"] == "fence.observed" else e)

@lie
def logs_on_stdout():
    def out(line):
        honest_out(b"INFO: about to say something\n" + line if b"work." in line else line)
    w.out = out

@lie
def timeout_is_fail(): on_line(lambda e: {**e, "outcome": "fail"} if e["kind"] == "renew.return" and e["outcome"] == "unknown" else e)


# Fences.
@lie
def process_fence():
    count = iter(range(1, 1000))
    def change(send, *c):
        reply = send(*c)
        return str(next(count)) if isinstance(reply, str) else reply
    on_script(w.ACQUIRE, change)

@lie
def clock_fence():
    def change(send, *c):
        reply = send(*c)
        return str(time.time_ns() // 1000) if isinstance(reply, str) else reply
    on_script(w.ACQUIRE, change)

@lie
def no_fence():
    def change(send, *c):
        reply = send(*c)
        return "0" if isinstance(reply, str) else reply
    on_script(w.ACQUIRE, change)


# A lock that is wrong.
@lie
def thief():
    def change(send, *c):
        send("SET", c[3], c[5], "PX", c[6])
        fence = str(time.time_ns() // 1000)
        send("SET", c[4], fence)
        return fence
    on_script(w.ACQUIRE, change)

@lie
def no_renewals(): w.Hold.keep = lambda self: None; w.Hold.check = lambda self: True

@lie
def works_on(): w.Hold.give_up = lambda self, reason: None; w.Hold.left = lambda self: self.p["op_timeout"]

@lie
def no_deadline(): w.Hold.left = lambda self: self.p["op_timeout"]

@lie
def patient():
    def call(self, timeout, *command):
        return honest_call(self, 60 if command[1:2] == (w.RENEW,) else timeout, *command)
    w.Redis.call = call

@lie
def releases_first():
    honest = w.Worker.work
    def work(self, hold, subject, do):
        def early():
            why = do()
            if not self.c["locks"][0]["policy"].get("loop"):
                hold.release()
            return why
        why = honest(self, hold, subject, early)
        if not self.c["locks"][0]["policy"].get("loop"):
            hold.release = lambda: None
        return why
    w.Worker.work = work

@lie
def leaves_key():
    honest = w.Hold.release
    def release(self):
        if w.stopping.is_set():
            self.p = {**self.p, "release": {"mode": "none"}}
        honest(self)
    w.Hold.release = release


# Jobs and commands.
@lie
def strict_fields():
    honest = w.Worker.obey
    def obey(self, c):
        if "later" in c:
            raise ValueError("later: unknown field")
        honest(self, c)
    w.Worker.obey = obey

@lie
def no_answer(): on_line(lambda e: None if e["kind"] == "job.ack" else e)

@lie
def same_op(): on_call(lambda send, *c: send(*c[:14], "of-" + c[12], *c[15:]) if c[2:3] == (4,) else send(*c))

@lie
def ignores_arm(): w.Worker.obey = (lambda honest: lambda self, c: None if c["cmd"] == "arm" else honest(self, c))(w.Worker.obey)

@lie
def ignores_sigterm(): w.signal = type("Signal", (), {"SIGTERM": 0, "signal": lambda *_: signal.signal(signal.SIGTERM, signal.SIG_IGN)})

@lie
def ignores_end():
    class Forever:
        def __iter__(self):
            yield from sys.__stdin__
            time.sleep(1000)
    w.sys = type("Sys", (), {"stdin": Forever(), "__excepthook__": sys.__excepthook__})

@lie
def crashes_on_stop():
    def end(line):
        if w.stopping.is_set() and b"work.exit" in line:
            os._exit(3)
        honest_out(line)
    w.out = end


# Loops.
@lie
def hasty_ticks():
    honest = w.Worker.__init__
    def init(self, c):
        for l in c["locks"]:
            if l["policy"].get("loop"):
                l["policy"]["loop"]["poll"] //= 10
                l["policy"]["loop"]["tick"] = 0
        honest(self, c)
    w.Worker.__init__ = init

@lie
def lazy_follower():
    honest = w.Worker.seek
    turn = iter(range(1 << 30))
    w.Worker.seek = lambda self, lock, key: honest(self, lock, key) if not lock["policy"].get("loop") or next(turn) % 8 == 0 else None

@lie
def begins_again():
    honest = w.Worker.write
    def write(self, hold, *a, **k):
        if hold.begun and a[2] == "tick":
            honest(self, hold, a[0], a[1], "begin", loop=True)
        return honest(self, hold, *a, **k)
    w.Worker.write = write


lies[sys.argv[2]]()
w.main()
