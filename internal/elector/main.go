// Command elector is somebody's own candidate for a leader election, in a module of its own: client-go's elector as it is, or a key of a
// Redis. It knows nothing of lockdrill. Its environment configures it:
//
//	LEASE, NAMESPACE, POD                          the Lease object, where it is, and the first part of its own name
//	LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD   of client-go
//	CONFUSED                                       not empty: it takes any new leader for itself
//	RELEASE                                        not empty: ReleaseOnCancel
//	KUBECONFIG                                     empty: the service account of its pod
//	POD_IP                                         the address that it dials from; empty: any
//	DIARY                                          a file: what it wrote, and when (diarist); beside it, .beliefs: when it led
//	REDIS, KEY, TTL                                instead of a Lease: a key, renewed ten times in its TTL
//
// Its one invariant: SIGTERM ends it at once, and it releases nothing, unless RELEASE is set.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	// A container that is started again is another candidate, though its process has the same number.
	me := fmt.Sprintf("%s_%x", os.Getenv("POD"), time.Now().UnixNano())
	fmt.Println("I begin") // the first that its log has
	elect := byLease
	if os.Getenv("REDIS") != "" {
		elect = byKey
	}
	if err := elect(ctx, me); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "elector:", err)
		os.Exit(1)
	}
}

// byLease returns when it leads no longer.
func byLease(ctx context.Context, me string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	if ip := os.Getenv("POD_IP"); ip != "" {
		config.Dial = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).DialContext
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var t [3]time.Duration
	for i, name := range []string{"LEASE_DURATION", "RENEW_DEADLINE", "RETRY_PERIOD"} {
		if t[i], err = time.ParseDuration(os.Getenv(name)); err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
	}
	diary := os.Getenv("DIARY")
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: os.Getenv("NAMESPACE"), Name: os.Getenv("LEASE")}, Client: client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: me},
	}
	confused := func(string) {}
	if os.Getenv("CONFUSED") != "" {
		confused = func(string) { fmt.Println("I lead now: " + me) }
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &diarist{lock, diary}, ReleaseOnCancel: os.Getenv("RELEASE") != "", LeaseDuration: t[0], RenewDeadline: t[1], RetryPeriod: t[2],
		Callbacks: leaderelection.LeaderCallbacks{
			OnNewLeader: confused,
			OnStartedLeading: func(context.Context) {
				note(diary+".beliefs", "%d true %q\n", time.Now().UnixNano(), me)
				fmt.Println("I lead now: " + me)
			},
			OnStoppedLeading: func() {
				note(diary+".beliefs", "%d false %q\n", time.Now().UnixNano(), me)
				fmt.Println("run lock renewal failed, or told to end: " + me)
			},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	return nil
}

// diarist is an elector's lock that keeps what it wrote and between which instants, by the clock of the machine: FROM TO "HOLDER", in
// nanoseconds since 1970.
type diarist struct {
	resourcelock.Interface
	file string
}

// Instants of a line that are none: the answer is not there yet, and will not be if no line follows; the API server wrote nothing.
const (
	unanswered = 0
	notWritten = -1
)

func (d *diarist) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return d.write(r, func() error { return d.Interface.Create(ctx, r) })
}

func (d *diarist) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return d.write(r, func() error { return d.Interface.Update(ctx, r) })
}

// write leaves a line open where the process ends, or is told to, before the answer is there: the API server may have written the record.
func (d *diarist) write(r resourcelock.LeaderElectionRecord, do func() error) error {
	const line = "%d %d %q\n"
	from := time.Now().UnixNano()
	note(d.file, line, from, unanswered, r.HolderIdentity)
	err, to := do(), time.Now().UnixNano()
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case err != nil:
		to = notWritten
	}
	note(d.file, line, from, to, r.HolderIdentity)
	return err
}

// note adds a line to a file that several write. A diary with a hole shows what did not happen: rather no elector.
func note(file, format string, values ...any) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, format, values...)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "elector: keep a diary:", err)
		os.Exit(1)
	}
}

// byKey takes a key and renews it, until it is told to end.
func byKey(ctx context.Context, me string) error {
	ttl, err := time.ParseDuration(os.Getenv("TTL"))
	if err != nil {
		return fmt.Errorf("read TTL: %w", err)
	}
	c, key := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS")}), os.Getenv("KEY")
	defer c.Close()
	for tick := time.NewTicker(ttl / 10); ; {
		if holder, err := c.Get(ctx, key).Result(); err == nil && holder == me {
			c.PExpire(ctx, key, ttl)
		} else {
			c.SetNX(ctx, key, me, ttl)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
