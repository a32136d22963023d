import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.Tap;

/**
 * Apache Curator's InterProcessMutex on ZooKeeper. The recipe is used as its documents show.
 *
 * <p>WILD_ZOOKEEPER has the address of ZooKeeper for each replica, r1's first.
 */
final class Curator extends Worker {
    private CuratorFramework curator;
    private InterProcessMutex mutex;
    private volatile boolean connected;
    private volatile Mutex held, latest; // what is held, and what was granted last

    public static void main(String[] args) throws Exception {
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
            Mutex h = held, l = latest;
            if (h != null && (state == ConnectionState.SUSPENDED || state == ConnectionState.LOST)) {
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
        mutex = new InterProcessMutex(curator, "/" + lock.get("key").asText());
    }

    @Override
    Hold hold() {
        return new Mutex();
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
        Mutex h = held;
        if (h != null) {
            ping = op();
            pinged = say("renew.invoke", 0, h.names, "op", ping, "call", map("attempt", 1, "ttl", ttl));
        }
    }

    private synchronized void answered(String outcome) {
        Mutex h = held;
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
            latest = held = this; // from now on the listener tells
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
}
