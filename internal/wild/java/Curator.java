import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.Tap;

/**
 * Apache Curator's InterProcessMutex on ZooKeeper, or its LeaderLatch if there is a word "latch". The recipe is used as its documents show.
 *
 * <p>WILD_ZOOKEEPER has the address of ZooKeeper for each replica, r1's first.
 */
final class Curator extends Worker {
    private CuratorFramework curator;
    private InterProcessMutex mutex;
    private LeaderLatch latch; // or this one
    private volatile boolean connected;
    private volatile Hold held; // what is held
    private volatile Mutex latest; // what was granted last
    private static boolean latches;

    public static void main(String[] args) throws Exception {
        latches = args.length > 0 && args[0].equals("latch");
        new Curator().run();
    }

    @Override
    void open() throws Exception {
        String[] ways = System.getenv("WILD_ZOOKEEPER").split(",");
        int session = (int) (ttl / 1_000_000);
        // By default a connection may take 15 s of a session of 60 s: in the same proportion here. The retries are those of the documents.
        curator = CuratorFrameworkFactory.newClient(ways[Integer.parseInt(me.get("name").asText().substring(1)) - 1], session, session / 4, new ExponentialBackoffRetry(1000, 3));
        curator.getConnectionStateListenable().addListener((c, state) -> {
            connected = state.isConnected();
            Mutex l = latest;
            if (held instanceof Mutex h && (state == ConnectionState.SUSPENDED || state == ConnectionState.LOST)) {
                h.unsure();
            }
            if (l != null && state == ConnectionState.LOST) {
                l.gone = true;
            }
        });
        Tap.sent = this::sent;
        Tap.answered = () -> answered("ok");
        curator.start();
        if (!curator.blockUntilConnected(15, TimeUnit.SECONDS)) {
            throw new IOException("no ZooKeeper at " + System.getenv("WILD_ZOOKEEPER"));
        }
        String path = "/" + lock.get("key").asText();
        if (!latches) {
            mutex = new InterProcessMutex(curator, path);
            return;
        }
        latch = new LeaderLatch(curator, path);
        latch.addListener(new LeaderLatchListener() {
            @Override
            public void isLeader() {}

            @Override
            public void notLeader() {
                if (held instanceof Latch h) {
                    held = null;
                    h.lose("not_owned");
                }
            }
        });
        latch.start();
    }

    @Override
    Hold hold() {
        return latches ? new Latch() : new Mutex();
    }

    @Override
    void close() {
        curator.close();
    }

    private String ping; // of the holder, that is under way
    private long pinged;

    /** A ping of the session is a renewal of the lock that it holds. */
    private synchronized void sent() {
        answered("unknown");
        Hold h = held;
        if (h != null) {
            ping = op();
            pinged = say("renew.invoke", 0, h.names, "op", ping, "call", map("attempt", 1, "ttl", ttl));
        }
    }

    private synchronized void answered(String outcome) {
        Hold h = held;
        if (h != null && ping != null) {
            say("renew.return", pinged, h.names, "op", ping, "outcome", outcome, "call", map("attempt", 1, "ttl", ttl, "result", outcome.equals("ok") ? "renewed" : "error"));
        }
        ping = null;
    }

    private final class Mutex extends Hold {
        volatile boolean gone; // with its session

        /** Waits for its turn for at most as long as the lease. */
        @Override
        boolean acquire() {
            return call("acquire", "held", () -> mutex.acquire(ttl, TimeUnit.NANOSECONDS) && granted()).equals("ok");
        }

        private boolean granted() {
            held = latest = this; // from now on the listener tells
            if (!connected) {
                unsure();
            }
            return true;
        }

        /** As the documents ask for: it may be another's. */
        void unsure() {
            held = null;
            lose("not_owned");
        }

        /** The `finally` of the documents: also after the lock was lost. It succeeds as well if the node has gone with its session. */
        @Override
        void release() {
            held = null;
            call("release", "absent", () -> {
                mutex.release();
                return !gone;
            });
        }
    }

    /** It leads until the latch says that it does not; only the end gives leadership back. */
    private final class Latch extends Hold {
        @Override
        boolean acquire() {
            return call("acquire", "held", () -> latch.await(ttl, TimeUnit.NANOSECONDS) && granted()).equals("ok");
        }

        private boolean granted() {
            held = this; // from now on the listener tells
            if (!latch.hasLeadership()) {
                held = null;
                lose("not_owned");
            }
            return true;
        }

        @Override
        void release() {
            held = null;
            if (!lost()) {
                call("release", "absent", () -> {
                    latch.close();
                    return true;
                });
            }
        }
    }
}
