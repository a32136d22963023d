package org.apache.zookeeper;

import java.io.IOException;
import org.apache.zookeeper.client.ZKClientConfig;

/** ZooKeeper's own socket, by -Dzookeeper.clientCnxnSocket: it tells the pings that keep the session, each before it is sent. */
public final class Tap extends ClientCnxnSocketNIO {
    public static Runnable sent, answered;
    private ClientCnxn.Packet ping; // that was told
    private boolean open; // it has no answer yet

    public Tap(ZKClientConfig config) throws IOException {
        super(config);
    }

    /** It is called when a ping is queued, and before the first packet of the queue is written. */
    @Override
    void updateLastSend() {
        super.updateLastSend();
        ClientCnxn.Packet p = outgoingQueue.peekFirst();
        if (p != null && p != ping && p.requestHeader != null && p.requestHeader.getType() == ZooDefs.OpCode.ping) {
            ping = p;
            open = true;
            sent.run();
        }
    }

    /** It is called when an answer was read; whoever holds the lock asks for nothing else. */
    @Override
    void updateLastHeard() {
        super.updateLastHeard();
        if (open) {
            open = false;
            answered.run();
        }
    }
}
