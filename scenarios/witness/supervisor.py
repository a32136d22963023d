#!/usr/bin/env python3
"""Keeps replicas of scheduler.py, or of another --program beside it, alive, and offers them jobs. TERM ends all of them.

Each replica has a name (s1, s2, ...), a file DIR/NAME.pid, a log DIR/NAME.log, and serves metrics on PORT+1, PORT+2, ...
Its own pid is in DIR/supervisor.pid.
What it does not know itself goes on to the replicas: supervisor.py --dir /tmp/sched --replicas 3 --scale 0.05 --bug no-guard
"""
import argparse, os, random, signal, subprocess, sys, threading, time

import scheduler


def keep(options, rest, i, stopping):
    """One replica, life after life."""
    name = "s%d" % i
    interpreter = "node" if options.program.endswith(".js") else sys.executable
    command = [interpreter, os.path.join(os.path.dirname(os.path.abspath(__file__)), options.program), "--name", name,
               "--port", str(options.port + i), "--redis", (options.ways.split(",") if options.ways else [options.redis])[(i - 1) % (options.ways.count(",") + 1)], "--scale", str(options.scale), "--replicas", str(options.replicas), *rest]
    while not stopping.is_set():
        with open(os.path.join(options.dir, name + ".log"), "ab") as log:
            child = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        pid = os.path.join(options.dir, name + ".pid")
        with open(pid + ".new", "w") as f:
            f.write("%d\n" % child.pid)
        os.replace(pid + ".new", pid)  # nobody reads half a number
        while child.poll() is None and not stopping.wait(0.02):
            pass
        if stopping.is_set():
            child.terminate()
            try:
                child.wait(options.grace)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        os.remove(pid)
        if name == options.once:
            return
        stopping.wait(options.restart)


def offer(options, stopping):
    """Jobs at random instants, each of 35 to 45 s of production. One that is due later is told of where its end will be."""
    redis, n, run = scheduler.Redis(options.redis), 0, "%x" % int(time.time())
    while not stopping.wait(random.expovariate(options.rate)) and (options.jobs == 0 or n < options.jobs):
        n += 1
        name = "job-%s-%05d" % (run, n)
        job = ["id", name, "seconds", "%.3f" % random.uniform(35, 45)]
        if options.delay:
            due = int((time.time() + options.delay * options.scale) * 1000)
            job += ["due", due]
            redis.call(5, "XADD", "cordum:jobs:log", "*", "job_id", name, "status", "OFFERED", "due", due, "op_id", "offer-" + name)
        while not stopping.is_set():
            try:
                redis.call(5, "XADD", scheduler.JOBS, "*", *job)
                break
            except OSError:
                stopping.wait(0.1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", required=True, help="of pid files and logs; made where it is missing")
    parser.add_argument("--program", default="scheduler.py", help="what a replica runs: scheduler.py or scheduler.js")
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--port", type=int, default=9100, help="metrics of s1 are on the next one")
    parser.add_argument("--redis", default="127.0.0.1:6379")
    parser.add_argument("--ways", default="", metavar="HOST:PORT,...", help="what s1, s2, ... connect to, in turn, on their way to that Redis")
    parser.add_argument("--scale", type=float, default=1, help="of all times of the replicas")
    parser.add_argument("--rate", type=float, default=5, help="jobs a second")
    parser.add_argument("--jobs", type=int, default=0, help="how many are offered; 0 = without end")
    parser.add_argument("--delay", type=float, default=0, help="seconds of production from which on a job may be done")
    parser.add_argument("--restart", type=float, default=0.5, help="seconds until what died is started again")
    parser.add_argument("--once", default="", metavar="NAME", help="a replica that is not started again")
    parser.add_argument("--grace", type=float, default=5, help="seconds from TERM to KILL")
    options, rest = parser.parse_known_args()
    os.makedirs(options.dir, exist_ok=True)
    own = os.path.join(options.dir, "supervisor.pid")
    with open(own, "w") as f:
        f.write("%d\n" % os.getpid())
    stopping = threading.Event()
    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, lambda *_: stopping.set())
    threads = [threading.Thread(target=keep, args=(options, rest, i + 1, stopping)) for i in range(options.replicas)]
    threads += [threading.Thread(target=offer, args=(options, stopping))] * (options.rate > 0)
    for thread in threads:
        thread.start()
    while not stopping.is_set() and (options.replicas or any(thread.is_alive() for thread in threads)):
        stopping.wait(0.2)
    for thread in threads:
        thread.join()
    os.remove(own)


if __name__ == "__main__":
    main()
