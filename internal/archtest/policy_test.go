package archtest

// place is where a package stands: what lies below it, which libraries it may use, and why no more than that.
type place struct {
	path  string   // below the module's root
	below []string // own packages that it may import, and with each whatever lies below that one
	libs  []string // modules of others that it may import
	bans  []string // names of the standard library that it may not use: import paths (and all below them) or path.Func
	why   string
}

// What the pure packages may not touch: they would give another answer next year.
var (
	world = []string{"os", "net", "syscall", "log", "io/ioutil", "math/rand", "crypto/rand"}
	clock = []string{"time.Now", "time.Since", "time.Until", "time.Sleep", "time.After", "time.AfterFunc", "time.NewTimer", "time.NewTicker", "time.Tick"}
)

func both(a, b []string) []string { return append(append([]string{}, a...), b...) }

// policy is the order of the packages: a package may import only what stands in its row.
var policy = []place{
	{path: "history", bans: both(world, clock),
		why: "the record is read by every later stage, so it knows none of them; the clock comes from the recorder's owner"},
	{path: "internal/monotime", libs: []string{"golang.org/x/sys"},
		why: "one reading of the system's clock, nothing else"},
	{path: "lockcore", bans: both(world, clock),
		why: "the protocol is sans-I/O: time and randomness come from outside, so that tests and virtual time drive the very same machine"},
	{path: "lockcore/protocol", below: []string{"history", "lockcore"}, bans: both(world, clock),
		why: "words that two processes share; what sends them is elsewhere"},
	{path: "lockcore/client", below: []string{"history", "lockcore", "internal/monotime"},
		why: "drives machines against any store: it must not know one"},
	{path: "lockcore/metrics", below: []string{"lockcore/client"}, libs: []string{"github.com/prometheus/client_golang"},
		why: "instruments of a client, on a registry that is handed in; a client without them must not carry Prometheus along"},
	{path: "lockcore/memstore", below: []string{"lockcore"},
		why: "the table behind a mutex"},
	{path: "internal/arena",
		why: "memory that is used again, nothing else"},
	{path: "internal/figures", bans: both(world, clock),
		why: "how figures are written for people, the same in every place; it measures and judges nothing"},
	{path: "lockcore/sim", below: []string{"history", "lockcore", "internal/arena"}, bans: both(world, clock),
		why: "a world in virtual time: a clock, a socket or foreign randomness in it, and the same seed would not give the same history"},
	{path: "lockcore/redisstore", below: []string{"lockcore"}, libs: []string{"github.com/redis/go-redis/v9"},
		why: "a translation of the table into Redis: the only place where the rules of a lock meet go-redis"},
	{path: "lockcore/leasestore", below: []string{"lockcore"}, libs: []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go"},
		why: "a lock on Lease objects, for programs that have a client of their cluster: it needs nothing of drills, and nobody else needs client-go for it"},
	{path: "lockcore/storetest", below: []string{"lockcore"},
		why: "the conformance suite knows the ports only, or it would test one store's habits"},
	{path: "internal/endpoint", below: []string{"lockcore/protocol"}, libs: []string{"github.com/redis/go-redis/v9"},
		why: "how a Redis that needs a password or TLS is dialled, the same for runner and replica; passwords pass through here and nowhere else"},
	{path: "lockcore/worker", below: []string{"internal/endpoint", "lockcore/client", "lockcore/metrics", "lockcore/protocol", "lockcore/redisstore"}, libs: []string{"github.com/prometheus/client_golang", "github.com/redis/go-redis/v9"},
		why: "a replica is a process that a run starts: it opens the connections that it is told of and knows nothing of experiments, so that any other worker can stand in for it"},
	{path: "experiments", below: []string{"history", "lockcore"}, libs: []string{"gopkg.in/yaml.v3"}, bans: both([]string{"net/http", "os/exec", "syscall", "log", "math/rand", "crypto/rand"}, clock),
		why: "the only reader of YAML; beyond reading its file it touches nothing, so that validate can promise that"},
	{path: "scenarios",
		why: "files in the binary; experiments reads them"},
	{path: "analysis", below: []string{"history", "experiments", "internal/arena", "internal/figures"}, libs: []string{"github.com/aclements/go-moremath", "gonum.org/v1/gonum"}, bans: both(world, clock),
		why: "a judgement is a pure function of experiment and history: a run judged again next year gives the same answer"},
	{path: "reports", below: []string{"analysis", "reports/timeline"}, libs: []string{"github.com/jstemmer/go-junit-report/v2", "github.com/prometheus/client_model", "github.com/prometheus/common"}, bans: both(world, clock),
		why: "a report is a pure function of the judgement: it can be redone, and nothing flows back from it into a run"},
	{path: "reports/timeline", below: []string{"analysis"}, bans: both(world, clock),
		why: "draws what was judged and nothing else: the same run gives the same bytes"},
	{path: "deploy", below: []string{"experiments"}, libs: []string{"gopkg.in/yaml.v3"}, bans: both(world, clock),
		why: "templates and what fills them in: the same mapping gives the same rules on any day and machine"},
	{path: "experiments/conductor", below: []string{"analysis"}, bans: both([]string{"os", "net", "syscall", "log", "crypto/rand"}, clock),
		why: "a pure step, so that the same one leads a live run and a rehearsal; its choices come from the run's seed"},
	{path: "experiments/rehearsal", below: []string{"experiments/conductor", "lockcore/sim"}, bans: both(world, clock),
		why: "leads the conductor through virtual time: no store, no process, no clock"},
	{path: "experiments/testbed", below: []string{"internal/toxi", "experiments/undo", "lockcore/protocol", "internal/endpoint", "internal/kube", "internal/linestream", "internal/monotime", "internal/tap"},
		libs: []string{"github.com/alicebob/miniredis/v2", "github.com/redis/go-redis/v9", "github.com/Shopify/toxiproxy/v2", "github.com/rs/zerolog", "golang.org/x/sys"},
		why:  "what a drill stands on; it must not know who leads the drill, or a store could notice that it is being watched"},
	{path: "experiments/undo", below: []string{"experiments"}, libs: []string{"golang.org/x/sys"},
		why: "records are plain data: how anything is undone is handed in, so that a journal can be read by any process"},
	{path: "internal/kube", libs: []string{"k8s.io/api/coordination/v1", "k8s.io/api/core/v1", "k8s.io/apimachinery", "k8s.io/client-go/dynamic", "k8s.io/client-go/rest",
		"k8s.io/client-go/tools/clientcmd", "k8s.io/client-go/tools/remotecommand", "k8s.io/client-go/util/exec", "k8s.io/klog", "k8s.io/streaming"},
		why: "a cluster in words of our own: whoever uses it need not know client-go, and it knows nothing of drills; typed clients and tools/leaderelection would link every kind that there is"},
	{path: "internal/linestream", below: []string{"history", "internal/monotime"}, libs: []string{"github.com/redis/go-redis/v9"},
		why: "standard streams over Redis: it looks into no line, so that whatever speaks the worker protocol can use it from a pod"},
	{path: "internal/resp",
		why: "the wire format of Redis and nothing else"},
	{path: "internal/tap", below: []string{"internal/resp"},
		why: "a proxy that stands alone as well: it knows of faults on operations, and of no run"},
	{path: "internal/toxi",
		why: "a server's HTTP API and nothing else: it is used by what opens the ways and by what disturbs them"},
	{path: "internal/toxitest",
		why: "starts a real Toxiproxy server for tests; no product code may lean on it, and it leans on none"},
	{path: "injectors", below: []string{"internal/toxi", "experiments/undo", "lockcore/protocol", "internal/kube", "internal/monotime", "internal/tap"},
		libs: []string{"github.com/redis/go-redis/v9"},
		why:  "satisfy the runner's interfaces structurally; they know neither runner nor probes, so a fault cannot reach the witness"},
	{path: "probes", below: []string{"history", "lockcore", "internal/kube", "internal/monotime"}, libs: []string{"github.com/prometheus/common", "github.com/redis/go-redis/v9"},
		why: "the witness: own connections, and no idea of faults or of the runner's intentions"},
	{path: "experiments/runner", below: []string{"experiments/conductor", "experiments/undo", "lockcore/protocol", "internal/monotime"},
		why: "declares what it needs as interfaces; it imports neither go-redis nor client-go, so any store and fleet can be drilled"},
	{path: "experiments/drill", below: []string{"experiments/rehearsal", "experiments/runner", "experiments/testbed", "injectors", "probes", "deploy", "lockcore/redisstore"},
		why: "puts one drill together and runs it: the only place where runner, testbed, injectors and probes meet; it knows no command line and no report"},
	{path: "cmd/lockdrill", libs: []string{"github.com/prometheus/client_golang", "github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/term"},
		below: []string{"internal/linestream", "lockcore/worker", "experiments/drill", "reports", "scenarios"},
		why:   "the command line: cobra, the terminal and the push to a gateway stay here"},
	{path: "internal/redistest", libs: []string{"github.com/redis/go-redis/v9"},
		why: "starts a real redis-server for tests; no product code may lean on it, and it leans on none"},
	{path: "internal/kubetest", libs: []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go", "k8s.io/streaming"},
		why: "starts a real API server with a fake node for tests; no product code may lean on it, and it leans on none"},
	{path: "internal/kubefake", libs: []string{"k8s.io/apimachinery", "k8s.io/client-go"},
		why: "a fake client for tests; no product code may lean on it, or the typed clients are in the binary again"},
	{path: "internal/kubetest/pod",
		why: "a process in a container: it must be nothing but that"},
	{path: "internal/golden",
		why: "holds text against golden files for tests; it knows nothing of what it compares, so that every package's tests may use it"},
	{path: "internal/browser", libs: []string{"github.com/chromedp/chromedp", "github.com/chromedp/cdproto"},
		why: "opens pages in a real browser for tests; no product code may lean on it, and it leans on none"},
	{path: "internal/archtest",
		why: "reads source, and depends on none of it"},
}
