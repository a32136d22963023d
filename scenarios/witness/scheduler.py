#!/usr/bin/env python3
"""One replica of a scheduler: jobs and five leader loops under locks in Redis. It knows nothing of lockdrill.

It stands for a service of somebody's own, and needs Python's standard library only. Jobs come from a Redis stream, and come again
until they are acknowledged. Every change of a job's state, and every tick of a loop, goes to a Redis stream, or to a table of
PostgreSQL. Log lines go to standard output, metrics to http://HOST:PORT/metrics. All times are those of production, times --scale.
--bug breaks one promise, so that a drill can show whether it finds out.
"""
import argparse, http.server, json, os, random, signal, socket, struct, sys, threading, time, uuid

BUGS = {
    "no-stop": "works on after its lock is lost",
    "renew-blind": "renews a key whoever holds it",
    "release-blind": "deletes a key whoever holds it",
    "no-guard": "does a job again that comes again, although it is finished",
    "double-terminal": "a write without an answer is made again as another one",
    "short-ttl": "locks of jobs end before the work does, and nobody renews them",
    "never-release": "the snapshot writer leaves its key to its TTL",
    "token-reuse": "every lock of a process has the same token",
    "swallow-errors": "takes every failed renewal for a good one",
    "idle-leader": "once a replica has been replaced, leaders log and do nothing",
}
# name, key, poll, TTL, renewal during a tick, whether it is released after a tick: seconds of production
LOOPS = [
    ("reconciler", "cordum:reconciler:default", 30, 60, 20, False),
    ("replayer", "cordum:replayer:pending", 30, 60, 0, False),
    ("workflow-reconciler", "cordum:workflow-engine:reconciler:default", 5, 10, 0, False),
    ("delay-poller", "cordum:wf:delay:poller", 5, 10, 0, False),
    ("snapshot-writer", "cordum:scheduler:snapshot:writer", 5, 30, 0, True),
]
JOBS, GROUP = "cordum:jobs:pending", "scheduler"
JOB_LOCK, JOB_TTL, JOB_RENEW = "cordum:scheduler:job:", 60, 20
APPROVAL, APPROVAL_TTL, APPROVAL_WAIT = "cordum:approval:batch", 10, 2
OP_TIMEOUT, REDELIVER, ACK_EVERY, STALE, MAX_FAILURES = 2, 10, 20, 120, 3

IF_MINE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call(%s) end return 0"
RENEW, RELEASE = IF_MINE % "'pexpire', KEYS[1], ARGV[2]", IF_MINE % "'del', KEYS[1]"
# A write that is asked for again under the same operation is the same write. One that arrives when its lock has gone is refused: however long
# it was on its way, no other holder is written over. The answer is whether it ended a job that was finished; -1: it was refused.
APPEND = """if redis.call('sismember', KEYS[1], ARGV[1]) == 1 then return 0 end
if ARGV[4] ~= '' and redis.call('get', KEYS[4]) ~= ARGV[4] then return -1 end
redis.call('sadd', KEYS[1], ARGV[1])
redis.call('xadd', KEYS[3], '*', unpack(ARGV, 5))
if ARGV[2] == '1' then return 1 - redis.call('sadd', KEYS[2], ARGV[3]) end
return 0"""


class Refused(OSError):
    """The server answered with an error."""


class NotOwned(Exception):
    """The key is not ours, or not there."""


class Redis:
    """A pool of connections. A call without an answer in time raises OSError: nobody knows then whether it took effect."""

    def __init__(self, address, source=None):
        host, _, port = address.rpartition(":")
        self.address, self.source, self.idle, self.left = (host or "127.0.0.1", int(port)), source, [], []

    def call(self, timeout, *words, leave=False):
        try:
            link = self.idle.pop()
        except IndexError:
            sock = socket.create_connection(self.address, timeout, self.source)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = sock, sock.makefile("rb")
        sock, replies = link
        try:
            sock.settimeout(timeout)
            parts = [str(word).encode() for word in words]
            sock.sendall(b"".join([b"*%d\r\n" % len(parts)] + [b"$%d\r\n%s\r\n" % (len(part), part) for part in parts]))
            answer = self.read(replies)
        except OSError:
            # A server that is late drops a call whose connection is closed, unless the connection is left open.
            self.left.append(link) if leave else sock.close()
            raise
        self.idle.append(link)
        if isinstance(answer, Refused):
            raise answer
        return answer

    def read(self, replies):
        line = replies.readline()
        if not line.endswith(b"\r\n"):
            raise OSError("connection closed")
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"-":
            return Refused(rest)
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == "-1" else replies.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return None if rest == "-1" else [self.read(replies) for _ in range(int(rest))]
        return rest


class StreamLedger:
    """Effects in Redis streams: one of the jobs, one of each loop. Where the locks are in that Redis too, it compares them."""

    def __init__(self, redis, timeout, compares):
        self.redis, self.timeout, self.compares = redis, timeout, compares

    def write(self, effect, terminal, again):
        fields = [word for pair in effect.items() for word in pair]
        stream = "cordum:jobs:log" if "job_id" in effect else "cordum:ticks:" + effect["loop"]
        subject = effect.get("job_id", effect.get("loop"))
        answer = self.redis.call(self.timeout, "EVAL", APPEND, 4, "cordum:ops", "cordum:finished", stream, effect["lock_key"],
                                 effect["op_id"], int(terminal), subject, effect["token"] if self.compares else "", *fields, leave=again)
        if answer == -1:
            raise NotOwned
        return answer

    def finished(self, job):
        return self.redis.call(self.timeout, "SISMEMBER", "cordum:finished", job) == 1


class TableLedger:
    """Effects in a table of PostgreSQL, by its simple query protocol; the server must trust the connection."""

    def __init__(self, address, timeout):
        where, _, self.database = address.removeprefix("postgres://").partition("/")
        self.user, _, host = where.rpartition("@")
        host, _, port = host.partition(":")
        self.address, self.timeout, self.turn, self.sock = (host, int(port or 5432)), timeout, threading.Lock(), None
        try:
            self.query("CREATE TABLE IF NOT EXISTS effects (id bigserial PRIMARY KEY, job_id text, loop text, status text NOT NULL, "
                       "worker text, token text, lock_key text, op_id text UNIQUE, at timestamptz DEFAULT now())")
        except Refused:
            pass  # another replica made it at the same moment

    def query(self, sql):
        with self.turn:
            try:
                if self.sock is None:
                    self.sock = socket.create_connection(self.address, self.timeout)
                    words = b"".join(w.encode() + b"\0" for w in ("user", self.user, "database", self.database)) + b"\0"
                    self.sock.sendall(struct.pack("!ii", len(words) + 8, 196608) + words)
                    self.answer()
                self.sock.settimeout(self.timeout)
                self.sock.sendall(b"Q" + struct.pack("!i", len(sql.encode()) + 5) + sql.encode() + b"\0")
                return self.answer()
            except OSError:
                if self.sock is not None:
                    self.sock.close()
                self.sock = None
                raise

    def answer(self):
        """How many rows came before the server was ready again."""
        rows, wrong = 0, None
        while True:
            kind, length = struct.unpack("!ci", self.exactly(5))
            body = self.exactly(length - 4)
            rows += kind == b"D"
            if kind == b"E":
                wrong = Refused(body.decode(errors="replace"))
            if kind == b"Z":
                if wrong:
                    raise wrong
                return rows

    def exactly(self, n):
        data = b""
        while len(data) < n:
            more = self.sock.recv(n - len(data))
            if not more:
                raise OSError("connection closed")
            data += more
        return data

    def write(self, effect, terminal, again):
        values = ", ".join("'%s'" % value.replace("'", "''") for value in effect.values())
        self.query("INSERT INTO effects (%s) VALUES (%s) ON CONFLICT (op_id) DO NOTHING" % (", ".join(effect), values))
        return terminal and self.ends(effect["job_id"]) > 1

    def finished(self, job):
        return self.ends(job) > 0

    def ends(self, job):
        return self.query("SELECT 1 FROM effects WHERE job_id = '%s' AND status = 'SUCCEEDED'" % job)


class Metrics:
    WAITS = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, float("inf")]

    def __init__(self):
        self.turn, self.held, self.values = threading.Lock(), [], {
            "cordum_scheduler_job_lock_abandoned_total": 0, "orphan_replayed_total": 0, "finished_again_total": 0, "stale_jobs": 0, "job_lock_wait_sum": 0, "job_lock_wait_count": 0,
            **{'job_lock_wait_bucket{le="%s"}' % ("+Inf" if w == float("inf") else w): 0 for w in self.WAITS}}

    def add(self, series, n=1):
        with self.turn:
            self.values[series] = self.values.get(series, 0) + n

    def set(self, series, n):
        with self.turn:
            self.values[series] = n

    def hold(self, lock):
        """Shows a lock until its lease is over."""
        with self.turn:
            self.held = [other for other in self.held if time.monotonic() < other.until] + [lock]

    def waited(self, seconds):
        for w in self.WAITS:
            if seconds <= w:
                self.add('job_lock_wait_bucket{le="%s"}' % ("+Inf" if w == float("inf") else w))
        self.add("job_lock_wait_sum", seconds)
        self.add("job_lock_wait_count")

    def text(self):
        kinds = {"job_lock_wait": "histogram", "stale_jobs": "gauge", "leader": "gauge", "lock_held": "gauge"}
        with self.turn:
            lines, last, now = [], None, time.monotonic()
            held = {'lock_held{key="%s"}' % lock.key: 1 for lock in self.held if now < lock.until and not (lock.over or lock.lost.is_set())}
            for series, value in sorted({**self.values, **held}.items()):
                name = series.partition("{")[0]
                family = "job_lock_wait" if name.startswith("job_lock_wait") else name
                if family != last:
                    lines.append("# TYPE %s %s" % (family, kinds.get(family, "counter")))
                    last = family
                lines.append("%s %s" % (series, value))
        return "\n".join(lines) + "\n"


class Lock:
    """One try to get a key and, where it was granted, the hold: renewed in the background until it is released, left or lost."""

    def __init__(self, me, space, key, ttl, renew):
        self.me, self.space, self.key, self.ttl, self.every = me, space, key, ttl * me.scale, renew * me.scale
        self.token = me.token if me.bug == "token-reuse" else me.prefix + str(uuid.uuid4())
        self.lost, self.done, self.keeper, self.until, self.over = threading.Event(), threading.Event(), None, 0.0, False

    def call(self, *words):
        return self.me.redis.call(self.me.timeout, *words)

    def acquire(self):
        asked = time.monotonic()
        try:
            if self.call("SET", self.key, self.token, "NX", "PX", int(self.ttl * 1000)) is None:
                return False
        except OSError as e:
            self.me.log("WARN", "lock acquire failed", key=self.key, error=e)
            try:
                self.try_release()  # it may have been granted
            except NotOwned:
                pass
            return False
        self.until = asked + self.ttl
        self.me.metrics.hold(self)
        self.me.log("INFO", "lock acquired", key=self.key, token=self.token)
        if self.every:
            self.keeper = threading.Thread(target=self.keep, daemon=True)
            self.keeper.start()
        return True

    def renew(self):
        asked = time.monotonic()
        try:
            if self.me.bug == "renew-blind":
                renewed = self.call("PEXPIRE", self.key, int(self.ttl * 1000))
            else:
                renewed = self.call("EVAL", RENEW, 1, self.key, self.token, int(self.ttl * 1000))
            if renewed != 1:
                raise NotOwned
        except (OSError, NotOwned):
            if self.me.bug != "swallow-errors":
                raise
        self.until = asked + self.ttl

    def keep(self):
        failures = 0
        while not self.done.wait(self.every):
            try:
                self.renew()
                failures = 0
            except NotOwned:
                self.not_owned("renew")
                return self.lose()
            except OSError as e:
                failures += 1
                self.me.log("WARN", "run lock renewal failed", key=self.key, error=e)
                if failures >= MAX_FAILURES:
                    return self.lose()

    def not_owned(self, operation):
        self.me.log("WARN", "lock not owned", key=self.key, operation=operation, left="%.3fs" % (self.until - time.monotonic()))
        self.me.metrics.add('lock_not_owned_total{namespace="%s",operation="%s"}' % (self.space, operation))

    def lose(self):
        if not self.lost.is_set():
            self.lost.set()
            self.me.log("ERROR", "job lock abandoned: renewal failed", key=self.key)
            self.me.metrics.add("cordum_scheduler_job_lock_abandoned_total")

    def held(self):
        """To be asked before every effect. When time is up the store has the last word: a key that still has the token was nobody else's."""
        if self.me.bug in ("no-stop", "short-ttl"):
            return True
        if not self.lost.is_set() and time.monotonic() >= self.until:
            try:
                self.renew()
            except NotOwned:
                self.not_owned("renew")
                self.lose()
            except OSError:
                self.lose()
        return not self.lost.is_set()

    def leave(self):
        """No renewals from now on: the key ends with its TTL."""
        self.done.set()
        if self.keeper:
            self.keeper.join()

    def try_release(self):
        try:
            if self.me.bug == "release-blind":
                self.call("DEL", self.key)
            elif self.call("EVAL", RELEASE, 1, self.key, self.token) != 1:
                raise NotOwned
        except OSError as e:
            return e

    def release(self):
        self.leave()
        self.over = True
        if self.lost.is_set() and self.me.bug != "release-blind":
            return  # it may be another's by now
        try:
            e = self.try_release()
            if e and self.space == "job":
                self.me.log("WARN", "job lock release failed, retrying", key=self.key, error=e)
                e = self.try_release()
                if e:
                    self.me.log("ERROR", "job lock release retry failed, lock will expire via TTL", key=self.key, error=e)
            elif e:
                what = {"run": "distributed run lock release failed", "approval": "approval lock release failed"}[self.space]
                self.me.log("WARN", what, key=self.key, error=e)
        except NotOwned:
            self.not_owned("release")
            self.me.log("WARN", "lock release skipped: token mismatch", key=self.key)


class Scheduler:
    def __init__(self, options):
        self.name, self.scale, self.bug, self.replicas = options.name, options.scale, options.bug, options.replicas
        self.timeout = max(OP_TIMEOUT * self.scale, 0.1)
        source = (options.host, 0) if options.host else None
        self.redis, self.metrics, self.token = Redis(options.redis, source), Metrics(), str(uuid.uuid4())
        self.prefix, self.effects, self.host = options.token_prefix, options.log_effects, options.host or "127.0.0.1"
        if options.ledger.startswith("postgres://"):
            self.ledger = TableLedger(options.ledger, self.timeout)
        else:
            trusts = self.bug in ("no-stop", "short-ttl", "renew-blind", "swallow-errors")  # it takes its own word for its being the holder
            self.ledger = StreamLedger(Redis(options.ledger or options.redis, source), self.timeout, not options.ledger and not trusts)
        self.stopping, self.acks, self.said = threading.Event(), [], threading.Lock()

    def log(self, level, message, **fields):
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + ".%03dZ" % (now % 1 * 1000)
        self.say(" ".join([stamp, level, message] + ["%s=%s" % field for field in fields.items()]))

    def say(self, line):
        with self.said:
            os.write(1, line.encode() + b"\n")

    def write(self, lock, status, terminal=False, **subject):
        """One effect. False: the lock is lost, or nobody knows whether it was written."""
        op, double = str(uuid.uuid4()), self.bug == "double-terminal"
        for _ in range(4):
            if not lock.held():
                return False
            effect = {**subject, "status": status, "op_id": op, "worker": self.name, "token": lock.token, "lock_key": lock.key}
            try:
                if self.ledger.write(effect, terminal, double):
                    self.metrics.add("finished_again_total")
                if self.effects == "json":
                    self.say(json.dumps(effect))
                elif self.effects:
                    self.log("INFO", "effect", **effect)
                return True
            except NotOwned:
                lock.not_owned("write")
                lock.lose()
                return False
            except OSError as e:
                self.log("WARN", "effect not written, retrying", status=status, error=e, **subject)
                if double:
                    op = str(uuid.uuid4())
        return False

    # Jobs

    def work(self):
        while not self.stopping.is_set():
            try:
                _, again, *_ = self.redis.call(self.timeout, "XAUTOCLAIM", JOBS, GROUP, self.name, int(REDELIVER * self.scale * 1000), "0-0", "COUNT", 1)
                fresh = not again and self.redis.call(self.timeout + 0.1, "XREADGROUP", "GROUP", GROUP, self.name, "COUNT", 1, "BLOCK", 100, "STREAMS", JOBS, ">")
                for entry, fields in again or (fresh[0][1] if fresh else []):
                    job = dict(zip(fields[::2], fields[1::2]))
                    if time.time() * 1000 < int(job.get("due", 0)):
                        continue  # it comes again
                    if again and not self.redis.call(self.timeout, "EXISTS", JOB_LOCK + job["id"]) and not self.ledger.finished(job["id"]):
                        self.metrics.add("orphan_replayed_total")  # nobody holds it, and it is not done
                    self.job(entry, job["id"], float(job["seconds"]) * self.scale)
            except OSError as e:
                self.log("WARN", "no jobs", error=e)
                self.stopping.wait(0.05)

    def job(self, entry, job, seconds):
        short = self.bug == "short-ttl"
        lock = Lock(self, "job", JOB_LOCK + job, JOB_TTL / 10 if short else JOB_TTL, 0 if short else JOB_RENEW)
        asked = time.monotonic()
        granted = lock.acquire()
        self.metrics.waited(time.monotonic() - asked)
        if not granted:
            return  # it comes again
        try:
            if self.bug != "no-guard" and self.ledger.finished(job):
                self.acks.append(entry)
            elif self.write(lock, "RUNNING", job_id=job):
                end = time.monotonic() + seconds
                while time.monotonic() < end and not self.stopping.is_set() and lock.held():
                    time.sleep(0.01)
                if not self.stopping.is_set() and self.write(lock, "SUCCEEDED", terminal=True, job_id=job):
                    self.acks.append(entry)
        finally:
            lock.release()

    def acknowledge(self):
        """Tells the stream every so often which jobs are done, and takes them out. So many of them come again, and are looked up."""
        while not self.stopping.wait(ACK_EVERY * self.scale):
            done, self.acks = self.acks, []
            try:
                if done:
                    self.redis.call(self.timeout, "XACK", JOBS, GROUP, *done)
                    self.redis.call(self.timeout, "XDEL", JOBS, *done)
            except OSError:
                self.acks += done

    # Leader loops

    def loop(self, name, key, poll, ttl, renew, explicit):
        due = time.monotonic() + random.random() * poll * self.scale
        space = "run" if key.startswith("cordum:w") else "job"
        while not self.stopping.wait(max(0, due - time.monotonic())):
            due = max(due + poll * self.scale, time.monotonic())
            lock = Lock(self, space, key, ttl, renew)
            try:
                if not lock.acquire():
                    continue
                self.metrics.set('leader{loop="%s"}' % name, 1)
                self.log("INFO", "leader tick", loop=name, key=key)
                if self.bug != "idle-leader" or int(self.redis.call(self.timeout, "GET", "cordum:starts")) <= self.replicas:
                    self.act(name)
                    self.write(lock, "TICK", loop=name)
                    self.metrics.add('loop_ticks_total{loop="%s"}' % name)
            except OSError as e:
                self.log("WARN", "tick failed", loop=name, error=e)
            finally:
                self.metrics.set('leader{loop="%s"}' % name, 0)
                if lock.until and explicit and self.bug != "never-release":
                    lock.release()
                else:
                    lock.leave()

    def act(self, name):
        if name == "reconciler":
            offered_before = int((time.time() - STALE * self.scale) * 1000)
            self.metrics.set("stale_jobs", len(self.redis.call(self.timeout, "XRANGE", JOBS, "-", offered_before)))
        elif name == "snapshot-writer":
            self.redis.call(self.timeout, "SET", "sys:workers:snapshot", "%s %f" % (self.name, time.time()))

    def approve(self):
        """Takes the lock of approvals now and then, as a request would: it waits for it a while, and is told then that it is busy."""
        while not self.stopping.wait(random.random() * 10 * self.scale):
            lock, until = Lock(self, "approval", APPROVAL, APPROVAL_TTL, 0), time.monotonic() + APPROVAL_WAIT * self.scale
            while not lock.acquire():
                if time.monotonic() > until:
                    self.log("WARN", "approval lock busy", key=APPROVAL)
                    break
                time.sleep(0.025)
            else:
                lock.release()

    def run(self, port, workers):
        scheduler = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = scheduler.metrics.text().encode()
                self.send_response(200 if self.path == "/metrics" else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer((self.host, port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            self.redis.call(5, "XGROUP", "CREATE", JOBS, GROUP, "0", "MKSTREAM")
        except Refused:
            pass  # it is there
        self.redis.call(5, "INCR", "cordum:starts")
        tasks = [(self.work,)] * workers + [(self.loop, *loop) for loop in LOOPS] + [(self.acknowledge,), (self.approve,)]
        threads = [threading.Thread(target=task, args=args) for task, *args in tasks]
        for thread in threads:
            thread.start()
        self.log("INFO", "ready", name=self.name, port=port, bug=self.bug)
        signal.sigwait({signal.SIGTERM})
        self.stopping.set()
        for thread in threads:
            thread.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], epilog="bugs: " + "; ".join("%s: %s" % bug for bug in BUGS.items()))
    parser.add_argument("--name", required=True)
    parser.add_argument("--port", type=int, required=True, help="of the metrics")
    parser.add_argument("--host", default="", help="address of the metrics, from which it also connects; left out: loopback")
    parser.add_argument("--redis", default="127.0.0.1:6379", help="host:port of the locks and the jobs")
    parser.add_argument("--ledger", default="", help="where effects go: host:port of a Redis (default: that of the locks), or postgres://user@host:port/database")
    parser.add_argument("--log-effects", choices=["json", "text"], help="every effect is a line of the log as well")
    parser.add_argument("--token-prefix", default="", help="what every token begins with")
    parser.add_argument("--scale", type=float, default=1, help="of all times")
    parser.add_argument("--workers", type=int, default=4, help="jobs at a time")
    parser.add_argument("--replicas", type=int, default=3, help="how many are started at first")
    parser.add_argument("--bug", choices=BUGS, metavar="NAME", help="breaks one promise: " + ", ".join(BUGS))
    options = parser.parse_args()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # a handler does not run while its thread waits, where another gets the signal
    Scheduler(options).run(options.port, options.workers)


def broken(args):  # a thread that dies alone would leave its lock behind in silence
    sys.__excepthook__(args.exc_type, args.exc_value, args.exc_traceback)
    os._exit(1)


threading.excepthook = broken
if __name__ == "__main__":
    main()
