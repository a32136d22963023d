import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A lockdrill worker without its lock. It knows leader loops (renewed and explicit), and says each call before it is made. */
abstract class Worker {
    static final ObjectMapper JSON = new ObjectMapper();
    static final OutputStream OUT = new FileOutputStream(FileDescriptor.out); // unbuffered
    static final Object BELL = new Object(); // rung when the lock is lost, and at the end

    static JsonNode me, lock, policy;
    static long ttl;
    static volatile boolean stopping;
    private static Redis ledger;
    private static int ops;

    /** Connects to the store. */
    abstract void open() throws Exception;

    /** One more acquisition. */
    abstract Hold hold();

    abstract void close();

    /** The runner's clock as well: CLOCK_MONOTONIC. */
    static long now() {
        return System.nanoTime();
    }

    /** Writes one line at once, and returns its from: what announces a call must be out before the call is made. */
    static long say(String kind, long from, Map<String, Object> names, Object... more) {
        synchronized (OUT) {
            Map<String, Object> line = map("kind", kind, "from", from == 0 ? now() : from);
            line.put("to", now());
            line.putAll(names);
            line.putAll(map(more));
            try {
                OUT.write((JSON.writeValueAsString(line) + "\n").getBytes(StandardCharsets.UTF_8));
            } catch (IOException e) {
                Runtime.getRuntime().halt(1);
            }
            return (long) line.get("from");
        }
    }

    static Map<String, Object> map(Object... pairs) {
        Map<String, Object> m = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            m.put((String) pairs[i], pairs[i + 1]);
        }
        return m;
    }

    static String op() {
        synchronized (OUT) {
            return me.get("incarnation").asText() + "/" + ++ops;
        }
    }

    interface Call {
        boolean make() throws Exception;
    }

    /** One acquisition, from its attempt to its release. */
    abstract static class Hold {
        final String token;
        final Map<String, Object> names; // with its fence, if it has one
        private boolean begun, lost, told;
        private String why;

        Hold() {
            byte[] id = new byte[16];
            new SecureRandom().nextBytes(id);
            token = HexFormat.of().formatHex(id);
            try {
                byte[] sum = MessageDigest.getInstance("SHA-256").digest(token.getBytes(StandardCharsets.UTF_8));
                names = map("lock", lock.get("name").asText(), "key", lock.get("key").asText(), "epoch", HexFormat.of().formatHex(sum, 0, 6));
            } catch (NoSuchAlgorithmException e) {
                throw new IllegalStateException(e);
            }
        }

        /** True: the lock is held. */
        abstract boolean acquire() throws InterruptedException;

        /** Called also when the lock was lost. */
        abstract void release() throws InterruptedException;

        /** Whether a lock that knows its lease has no more of it. */
        boolean over() {
            return false;
        }

        /** Announces, makes and reports one call, and returns its outcome; no is what it says that has no effect. */
        String call(String what, String no, Call call) {
            Map<String, Object> claim = map("attempt", 1);
            if (what.equals("acquire") || what.equals("renew")) {
                claim.put("ttl", ttl);
            }
            if (what.equals("acquire")) {
                claim.put("demand", true);
            }
            String op = op(), outcome = "ok";
            long from = say(what + ".invoke", 0, names, "op", op, "call", claim);
            claim.remove("demand");
            claim.put("result", what.equals("acquire") ? "granted" : what.equals("renew") ? "renewed" : "released");
            try {
                if (!call.make()) {
                    outcome = "fail";
                    claim.put("result", no);
                }
            } catch (Exception e) {
                outcome = "unknown";
                claim.putAll(map("result", "error", "err", e.toString()));
            }
            say(what + ".return", from, names, "op", op, "outcome", outcome, "call", claim);
            return outcome;
        }

        void lose(String reason) {
            synchronized (BELL) {
                if (!lost) {
                    lost = true;
                    why = reason;
                }
                BELL.notifyAll();
            }
        }

        /** Asked before each effect. */
        boolean lost() {
            synchronized (BELL) {
                if (!lost && over()) {
                    lose("deadline");
                }
                if (lost && !told) {
                    told = true;
                    say("fence.observed", 0, names, "abandon", map("reason", why));
                    say("abandon", 0, names, "abandon", map("reason", why));
                }
                return lost;
            }
        }

        private boolean write(String state) {
            Map<String, Object> body = map("subject", names.get("lock"), "state", state, "terminal", false);
            String op = op(), p = me.get("ledger").get("prefix").asText() + "{ledger}:", fence = names.getOrDefault("fence", 0).toString();
            String unfenced = lock.get("unfenced").asBoolean() || fence.equals("0") ? "1" : "0", strict = lock.get("strict").asBoolean() ? "1" : "0";
            for (int i = 0; i < 3 && !lost(); i++) {
                long from = say("write.invoke", 0, names, "op", op, "write", body);
                try {
                    List<?> r = (List<?>) ledger.ask("EVAL", me.get("script").asText(), "4", p + "entries", p + "marks", p + "subjects", p + "answers",
                        (String) names.get("key"), (String) names.get("lock"), "1", state, "0", (String) names.get("epoch"), fence, op, me.get("incarnation").asText(), unfenced, strict);
                    boolean accepted = r.get(1).equals(1L);
                    Map<String, Object> said = new LinkedHashMap<>(body);
                    said.putAll(map("accepted", accepted, "reason", r.get(2), "current", r.get(3)));
                    say("write.return", from, names, "op", op, "outcome", "ok", "write", said);
                    return accepted;
                } catch (IOException e) {
                    say("write.return", from, names, "op", op, "outcome", "unknown", "write", body);
                }
            }
            return false;
        }

        /** Does one tick's work; false: the lock is no use any more. */
        boolean work() throws InterruptedException {
            String op = op();
            say("work.enter", 0, names, "op", op, "work", map("subject", names.get("lock")));
            begun = begun || write("begin");
            boolean done = begun && write("tick") && !await(now() + policy.get("loop").get("tick").asLong(), this);
            say("work.exit", 0, names, "op", op, "work", map("subject", names.get("lock"), "why", !done ? "fenced" : stopping ? "stopped" : "done"));
            return done;
        }
    }

    /** Waits until then, or the end; true: the lock was lost meanwhile. */
    static boolean await(long until, Hold hold) throws InterruptedException {
        synchronized (BELL) {
            for (long left; (left = until - now()) > 0 && !stopping && !(hold != null && hold.lost()); ) {
                BELL.wait(left / 1_000_000, (int) (left % 1_000_000));
            }
        }
        return hold != null && hold.lost();
    }

    /** Who has the key does one tick every poll. r1 asks first, so that a drill knows who waits. */
    private void loop() {
        Hold hold = null;
        try {
            long poll = policy.get("loop").get("poll").asLong();
            long due = now() + (me.get("name").asText().equals("r1") ? 0 : poll);
            while (!stopping) {
                if (await(due, hold)) {
                    hold.release();
                    hold = null;
                    continue;
                }
                due = Math.max(now(), due + poll); // ticks are not made up for
                if (hold == null && !stopping) {
                    Hold h = hold();
                    hold = h.acquire() ? h : null;
                }
                if (hold != null && (!hold.work() || policy.get("loop").get("mode").asText().equals("explicit"))) {
                    hold.release();
                    hold = null;
                }
            }
            if (hold != null) {
                hold.release();
            }
        } catch (InterruptedException e) {
            Runtime.getRuntime().halt(1);
        }
    }

    /** Obeys the runner until its end. */
    void run() throws Exception {
        Thread loop = new Thread(this::loop);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            JsonNode c = JSON.readTree(line);
            if (c.get("v").asInt() > 1) {
                System.exit(2);
            }
            String cmd = c.get("cmd").asText();
            if (cmd.equals("configure")) {
                me = c.get("configure");
                lock = me.get("locks").get(0);
                policy = lock.get("policy");
                ttl = policy.get("ttl").asLong();
                ledger = new Redis(me.get("ledger"), 0);
                open();
                say("replica.ready", 0, map("replica", map("name", me.get("name"), "incarnation", me.get("incarnation"), "pid", ProcessHandle.current().pid())));
                loop.start();
            } else if (cmd.equals("arm")) { // it makes no faults: the shot is void
                JsonNode a = c.get("arm");
                String of = a.get("op").asText(), kind = of.equals("clock") ? of : of + "_failures";
                say("fault.reverted", 0, map("op", a.get("fault").asText() + "#" + a.get("shot")), "fault", map("id", a.get("fault"), "shot", a.get("shot"), "kind", kind, "form", a.get("mode")));
            } else if (cmd.equals("crash")) {
                Runtime.getRuntime().halt(137);
            } else if (cmd.equals("stop")) {
                break;
            }
        }
        stopping = true;
        synchronized (BELL) {
            BELL.notifyAll();
        }
        loop.join();
        if (me != null) {
            close();
        }
        System.exit(0);
    }

    /** A connection to a Redis, which is dropped when a call fails: nothing is sent again. One thread at a time may ask. */
    static final class Redis {
        private final String[] addr;
        private long limit; // of a call, in ns; 0: none
        private Socket socket;
        private InputStream in;
        private long until;

        /** Connects, and takes its time for that: a JVM begins slowly. */
        Redis(JsonNode at, long limit) throws IOException {
            addr = at.get("addr").asText().split(":");
            ask("PING");
            this.limit = limit;
        }

        /** The reply is a Long, a String (also for nil: "") or a List of these. */
        Object ask(String... words) throws IOException {
            until = now() + limit;
            StringBuilder text = new StringBuilder("*" + words.length + "\r\n");
            for (String w : words) {
                text.append("$" + w.getBytes(StandardCharsets.UTF_8).length + "\r\n" + w + "\r\n");
            }
            try {
                if (socket == null) {
                    socket = new Socket();
                    socket.setTcpNoDelay(true);
                    socket.connect(new InetSocketAddress(addr[0], Integer.parseInt(addr[1])), left());
                    in = new BufferedInputStream(socket.getInputStream());
                }
                socket.getOutputStream().write(text.toString().getBytes(StandardCharsets.UTF_8));
                return reply();
            } catch (IOException e) {
                socket.close();
                socket = null;
                throw e;
            }
        }

        /** What is left of the call's time in ms; 0: it has no limit. */
        private int left() throws IOException {
            long left = (until - now()) / 1_000_000;
            if (limit > 0 && left <= 0) {
                throw new SocketTimeoutException("no answer");
            }
            return limit > 0 ? (int) left : 0;
        }

        private Object reply() throws IOException {
            String head = line();
            String rest = head.substring(1);
            switch (head.charAt(0)) {
                case '+':
                    return rest;
                case ':':
                    return Long.parseLong(rest);
                case '$':
                    return Integer.parseInt(rest) < 0 ? "" : line();
                case '*':
                    List<Object> all = new ArrayList<>();
                    for (int n = Integer.parseInt(rest); n > 0; n--) {
                        all.add(reply());
                    }
                    return all;
                default:
                    throw new IOException(head);
            }
        }

        /** No word of an answer has a newline in it. */
        private String line() throws IOException {
            StringBuilder b = new StringBuilder();
            for (int c; (c = read()) != '\r'; ) {
                if (c < 0) {
                    throw new EOFException();
                }
                b.append((char) c);
            }
            read();
            return b.toString();
        }

        private int read() throws IOException {
            socket.setSoTimeout(left());
            return in.read();
        }
    }
}
