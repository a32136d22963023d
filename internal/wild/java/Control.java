/**
 * A lock that does what docs/worker-protocol.md asks for: a drill must accuse it of nothing. It bounds each call, has a fence, counts its
 * lease from when it asked, and gives back what it may have got.
 */
final class Control extends Worker {
    static final String TAKE = """
        local t = redis.call('TIME')
        if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return '' end
        local fence = math.max(t[1] * 1000000 + t[2], (redis.call('GET', KEYS[2]) or 0) + 1)
        redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', 86400000)
        return string.format('%.0f', fence)""";
    static final String PROLONG = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";
    static final String FREE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

    private Redis redis;

    public static void main(String[] args) throws Exception {
        new Control().run();
    }

    @Override
    void open() throws Exception {
        redis = new Redis(me.get("store"), policy.get("op_timeout").asLong());
    }

    @Override
    Hold hold() {
        return new Leased();
    }

    @Override
    void close() {}

    private final class Leased extends Hold {
        private volatile long valid; // until then the work may go on
        private final Thread keeper = new Thread(this::keep);

        private Object ask(String script) throws Exception {
            String key = me.get("store").get("prefix").asText() + lock.get("key").asText();
            return redis.ask("EVAL", script, "2", key, "{" + key + "}:fence", token, Long.toString(ttl / 1_000_000));
        }

        private boolean free() throws Exception {
            return ask(FREE).equals(1L);
        }

        private void extended(long from) {
            valid = from + ttl - policy.path("stop_budget").asLong();
        }

        @Override
        boolean over() {
            return now() >= valid;
        }

        @Override
        boolean acquire() throws InterruptedException {
            String outcome = call("acquire", "held", () -> {
                long from = now();
                String fence = (String) ask(TAKE);
                if (fence.isEmpty()) {
                    return false;
                }
                names.put("fence", Long.parseLong(fence));
                extended(from);
                return true;
            });
            if (outcome.equals("ok")) {
                keeper.start();
            }
            for (long until = now() + ttl; outcome.equals("unknown") && now() < until; Thread.sleep(20)) {
                if (!call("undo", "other", this::free).equals("unknown")) {
                    break;
                }
            }
            return outcome.equals("ok");
        }

        /** Renews until the lock is lost, or release interrupts it. */
        private void keep() {
            long every = policy.get("renew_every").asLong();
            try {
                for (long due = now() + every; !await(Math.min(due, valid), this) && !stopping; due = now() + every) {
                    String outcome = call("renew", "other", () -> {
                        long from = now();
                        boolean ok = ask(PROLONG).equals(1L);
                        if (ok) {
                            extended(from);
                        }
                        return ok;
                    });
                    if (outcome.equals("fail")) {
                        lose("not_owned");
                    }
                }
            } catch (InterruptedException e) {
                // the work is done
            }
        }

        /** What was lost is left alone. */
        @Override
        void release() throws InterruptedException {
            keeper.interrupt();
            keeper.join();
            if (lost()) {
                say("release.skipped", 0, names, "call", map("why", "after_abandon"));
                return;
            }
            for (int i = 0; i < 3 && call("release", "other", this::free).equals("unknown"); i++) {
                // nobody knows: it asks again
            }
        }
    }
}
