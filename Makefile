# Everything that a person or a machine does with this repository. `make help` lists it.

GO ?= go

.PHONY: help build image test test-times test-live test-busy test-kube truth agree mutants oracles same alerts liars subjects scenarios witness postgres selftest-live full-scale explore stress e2e-kube kube-ten check bench wild record pictures release release-check ci-schemas helm deps clean

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 8

build: ## bin/lockdrill with all drivers, and the schema by which editors read scenarios/
	$(GO) build -tags full -o bin/lockdrill ./cmd/lockdrill
	bin/lockdrill validate --schema -o scenarios/lockdrill.schema.json

IMAGE ?= localhost/lockdrill:$(shell sed -n 's/^const release = "\(.*\)"$$/\1/p' cmd/lockdrill/version.go)
ARCH ?= $(shell $(GO) env GOARCH)

image: ## bin/image/lockdrill.tar: a container image (IMAGE=NAME:TAG ARCH=amd64|arm64), built without a Docker daemon, and tried out
	CGO_ENABLED=0 GOOS=linux GOARCH=$(ARCH) $(GO) build -trimpath -tags timetzdata,full -ldflags='-s -w' -o bin/image/lockdrill ./cmd/lockdrill
	cd internal/image && $(GO) run . -binary ../../bin/image/lockdrill -ref $(IMAGE) -title lockdrill -o ../../bin/image/lockdrill.tar
	cd internal/image && LOCKDRILL_ARCHIVE=$(CURDIR)/bin/image/lockdrill.tar $(GO) test -count=1 .

PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

# The platforms do not share what is compiled: each costs what the first build costs.
release: ## bin/release: archives for PLATFORMS, images and Debian packages for those of Linux, a Homebrew formula, sums; nothing is published; ten minutes where nothing is built yet
	@.ci/need dpkg-deb dpkg
	rm -rf bin/release
	GO=$(GO) PLATFORMS='$(PLATFORMS)' internal/release/build bin/release

release-check: release ## the release, built a second time from another folder, compared, unpacked and run: linux on amd64 and, by qemu, arm64; the exported CI steps in a bare Debian
	@.ci/need qemu-aarch64-static qemu-user-static
	@.ci/need ruby
	rm -rf bin/again && git clone -q --no-hardlinks . bin/again
	GO=$(GO) PLATFORMS='$(PLATFORMS)' bin/again/internal/release/build bin/again/bin/release
	cd internal/release && LOCKDRILL_RELEASE=$(CURDIR)/bin/release LOCKDRILL_RELEASE_AGAIN=$(CURDIR)/bin/again/bin/release $(GO) test -count=1 -v .
	for image in bin/release/*-image-*.tar; do (cd internal/image && LOCKDRILL_ARCHIVE=$(CURDIR)/$$image $(GO) test -count=1 -run Shipped -v .) || exit 1; done
	LOCKDRILL_RELEASE=$(CURDIR)/bin/release $(GO) test -count=1 -v -run InABareDebian ./deploy
	rm -rf bin/again

ci-schemas: ## the exported CI files by GitHub's own parser, GitLab's schema and the resource definitions of Tekton and Argo Rollouts, which are fetched: npm, half a minute
	LOCKDRILL_CI_SCHEMAS=1 $(GO) test -count=1 -v -run TestCIFilesAreValid ./deploy

# Tests wait for real time: twice as many at once as there are cores. The packages that wait most begin first, so that none is left alone.
CORES := $(shell getconf _NPROCESSORS_ONLN)
AT_ONCE := $(shell expr 2 \* $(CORES))
WAITING := ./injectors ./stores/redis ./stores/postgres ./probes ./drill/testbed ./lockcore/redisstore ./reports

# vet is of check, and costs half a minute where nothing is built yet.
TESTS = $(GO) test -vet=off -tags full -skip '^Test(Kube|Live)' -p $(AT_ONCE) $(WAITING) $$($(GO) list ./... | grep -v -e /cmd/ -e /kubetest)
DRILL_TESTS = $(GO) test -vet=off -tags full -skip '^Test(Kube|Live)' -p 1 -parallel $(AT_ONCE) -timeout 20m ./cmd/...

test: deps ## all tests but those of test-live and test-kube; the drills last and alone, since they measure time
	$(TESTS)
	$(DRILL_TESTS)

test-times: deps ## test, nothing from the cache of results, as a table: what each package costs, and its slowest test
	@{ $(TESTS) -json -count=1; $(DRILL_TESTS) -json -count=1; } | .ci/test-times

test-live: deps ## all tests named TestLive...: those that drill for longer, and what kill -9 leaves; five minutes
	live=$$(grep -rl --include='*_test.go' '^func TestLive' . | xargs -n 1 dirname | sort -u) && \
	$(GO) test -vet=off -tags full -run '^TestLive' -p 1 -parallel $$(($(CORES) + 1)) -timeout 20m $$live

BUSY ?= 28

# A loop ends when the shell that began it is gone, however that ended.
test-busy: deps ## test and test-live beside 28 (BUSY=) busy loops, a load of 30 on two cores, nothing from the cache of results: half an hour
	for i in $$(seq $(BUSY)); do sh -c 'while kill -0 $$0; do :; done' $$$$ >/dev/null 2>&1 & done; \
	GOFLAGS=-count=1 $(MAKE) test test-live

test-kube: deps ## all tests named TestKube..., against a real etcd, kube-apiserver, controllers and scheduler, built here: no root; seven minutes, and where nothing is built yet 13.5 minutes of CPU before
	GO=$(GO) internal/kubetools/build
	GO=$(GO) internal/kubetools/build kubectl
	kube=$$(grep -rl --include='*_test.go' '^func TestKube' . | xargs -n 1 dirname | sort -u | grep -v '^./cmd/') && \
	LOCKDRILL_KUBE=1 $(GO) test -count=1 -run '^TestKube' $$kube
	PATH="$$(GO=$(GO) internal/kubetools/build kubectl):$$PATH" LOCKDRILL_KUBE=1 $(GO) test -count=1 -tags full -timeout 20m -run '^TestKube' ./cmd/...

truth: deps ## what is measured against what really happened, in 100,000 random worlds, 5,000 seen from outside, 5,000 of readings and 400 live kills: minutes
	LOCKDRILL_TRUTH_SEEDS=100000 $(GO) test -count=1 -v -timeout 1h -run 'TestTruthInRange|TestTruthFromOutside|TestTruthOfReadings' ./drill/rehearsal
	LOCKDRILL_TRUTH_KILLS=400 $(GO) test -count=1 -v -run TestLiveMeasuredTakeoverContainsTheTruth ./cmd/lockdrill/e2e

mutants: ## 122 deliberate mistakes in the lock core, the record and the analysis, and what catches each: ten minutes
	LOCKDRILL_MUTANTS=all $(GO) test -count=1 -v -timeout 1h -run TestMutantsAreCaught ./drill/rehearsal

DRILLS ?= 2000
SEEDS ?= 10

oracles: ## which tests notice when the judge never gives one of its answers: docs/oracles.md; twenty minutes
	LOCKDRILL_ORACLES=. $(GO) test -count=1 -v -timeout 1h -run TestOracles ./analysis
	$(GO) test -count=1 -run TestTheLedgerOfOracles ./analysis -update

same: ## what this tree answers otherwise than commit OLD=: verdicts, figures, tables, errors' places, schema; a line each, nothing = the same (DRILLS= SEEDS= fewer, GROUP=1 each once); status 1 = differs; minutes
	@mkdir -p bin/same && $(GO) build -o bin/same/same ./internal/same
	@bin/same/same -old '$(OLD)' -drills $(DRILLS) -seeds $(SEEDS) $(if $(GROUP),-group)

scenarios: deps ## every shipped scenario, live, at its time scale: minutes
	LOCKDRILL_TEST_DRILLS=all $(GO) test -count=1 -v -timeout 1h -run TestLiveScenariosEndAsTheySay ./cmd/lockdrill/e2e

selftest-live: deps ## every wrong lock and every shipped class with every fault, live, one after another: half an hour
	LOCKDRILL_SELFTEST=all $(GO) test -count=1 -v -timeout 2h -run TestLiveSelftest ./cmd/lockdrill

witness: deps ## a service that knows nothing of lockdrill, in Python and in Node, drilled as it runs: three times as it is, once with each of its thirteen bugs in each drill that can show it, beside lockdrill's own lock at the same timings, with ioredis itself (npm), with its jobs in PostgreSQL, and in each cell of the table of docs/pause-longer-than-the-lease.md; three quarters of an hour
	LOCKDRILL_WITNESS=all $(GO) test -count=1 -v -timeout 1h -parallel 2 -run AServiceOfSomebodysOwn ./cmd/lockdrill/e2e

postgres: deps ## a worker on advisory locks of a real PostgreSQL, drilled: a minute
	LOCKDRILL_TEST_POSTGRES=all $(GO) test -count=1 -v -tags full -run TestAdvisoryLocksAreDrilled ./cmd/lockdrill/e2e

alerts: deps ## each exported alert fires in a real Prometheus beside the shipped drill that it names, at the drill's time scale (ALERTS=full: at time scale 1, two hours): a quarter of an hour
	LOCKDRILL_ALERTS=$(ALERTS) $(GO) test -count=1 -v -timeout 6h -run 'TestEveryAlertFires|TestAlertsOnDrillsFire|TestARealAlertmanagerSays|RaisesTheAlert' ./cmd/lockdrill/e2e

liars: deps ## each of 42 wrong workers, mutants of the lock among them, and what the drill worker-check says of it: five minutes
	LOCKDRILL_LIARS=all $(GO) test -count=1 -v -timeout 30m -run TestLiveTheDrillTellsWrongWorkers ./cmd/lockdrill/e2e

subjects: deps ## every scenario rehearsed a hundred times and each mutant of its subject twenty times, then one mutant of each live: twenty minutes
	LOCKDRILL_SUBJECTS=all $(GO) test -count=1 -v -timeout 1h -run TestNoScenarioIsGreenWithAMutant ./drill/rehearsal
	LOCKDRILL_TEST_DRILLS=mutants $(GO) test -count=1 -v -timeout 1h -run TestNoScenarioIsGreenLive ./cmd/lockdrill/e2e

agree: deps ## sixty kills live, held against the rehearsals of the same file: both distributions and a rank test; five minutes
	LOCKDRILL_AGREE=1 $(GO) test -count=1 -v -timeout 20m -run TestALiveDrillAgreesWithItsRehearsals ./cmd/lockdrill/e2e

full-scale: deps ## the scenario of each profile at its published numbers, live: an hour and a half
	LOCKDRILL_TEST_DRILLS=full $(GO) test -count=1 -v -timeout 3h -run TestScenariosAtFullScale ./cmd/lockdrill/e2e

DEEPER ?= 2

explore: ## every order of events for two and three contenders, 2 (DEEPER=) steps deeper than in make test, with states and seconds: two minutes and some gigabytes of memory, three times that for each step more
	LOCKDRILL_EXPLORE=$(DEEPER) $(GO) test -count=1 -v -timeout 2h ./lockcore/explore

ALERTS ?= scaled
STRESS ?= 200

stress: deps ## 200 (STRESS=) random timelines of overlapping faults in runs that end, are interrupted or killed, then kill -9 at every state of every fault: a quarter of an hour
	LOCKDRILL_STRESS=$(STRESS) $(GO) test -count=1 -v -timeout 2h -parallel 2 -run 'TestLiveStress$$' ./cmd/lockdrill/e2e
	LOCKDRILL_TEST_DRILLS=all $(GO) test -count=1 -timeout 2h -run TestLiveARunnerKilledAtEachStateLeavesNothing ./cmd/lockdrill/e2e

# What stands in the way is said before anything is built.
e2e-kube: ## pods of our own image on a real kubelet and containerd, in namespaces of their own: root, Linux; installs nothing; five minutes, and where nothing is built yet 13.5 minutes of CPU for the control plane before
	@.ci/need --ask redis-server
	@.ci/need --ask ip iproute2
	@.ci/need --ask gcc gcc libc6-dev
	@.ci/need --ask pkg-config
	@.ci/need --ask /usr/include/seccomp.h libseccomp-dev
	@.ci/need --ask python3
	@.ci/need --ask nft nftables
	internal/kubetools/cri/enter true
	$(MAKE) image
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o bin/image/pod ./internal/kubetest/pod
	cd internal/image && $(GO) run . -binary ../../bin/image/pod -ref localhost/lockdrill-pod:1 -title 'a pod of tests' -ca none -o ../../bin/image/pod.tar
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o bin/image/toxiproxy github.com/Shopify/toxiproxy/v2/cmd/server
	cd internal/image && $(GO) run . -binary ../../bin/image/toxiproxy -ref localhost/toxiproxy:1 -title 'a Toxiproxy of tests' -ca none -o ../../bin/image/toxiproxy.tar
	cd internal/elector && CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o ../../bin/image/elector .
	cd internal/image && $(GO) run . -binary ../../bin/image/elector -ref localhost/elector:1 -title 'a candidate of tests' -ca none -o ../../bin/image/elector.tar
	internal/kubetools/build etcd kube-apiserver kube-controller-manager kube-scheduler kubelet
	LOCKDRILL_CRI_BIN=$$(internal/kubetools/cri/build) LOCKDRILL_KUBE=1 LOCKDRILL_IMAGE=$(IMAGE) LOCKDRILL_TOXIPROXY=localhost/toxiproxy:1 LOCKDRILL_ELECTOR=localhost/elector:1 \
		LOCKDRILL_ARCHIVES='$(CURDIR)/bin/image/lockdrill.tar $(CURDIR)/bin/image/pod.tar $(CURDIR)/bin/image/toxiproxy.tar $(CURDIR)/bin/image/elector.tar' \
		internal/kubetools/cri/enter $(GO) test -count=1 -v -timeout 20m -run 'TestE2EKube$$' ./cmd/lockdrill/e2e

TIMES ?= 10

kube-ten: ## test-kube and then e2e-kube, ten (TIMES=) times each, and what is left after each run: mounts, links, namespaces of the network, cgroups, rules of nftables and iptables, processes; an hour and a half
	internal/kubetools/ten $(TIMES) $(MAKE) test-kube
	internal/kubetools/ten $(TIMES) $(MAKE) e2e-kube

helm: ## the exported chart, by a real Helm that is built here: lint, and template held against the kustomize base; two minutes of CPU where nothing is built yet
	cd internal/helm && GOFLAGS=-buildvcs=false $(GO) build -o ../../bin/helm helm.sh/helm/v3/cmd/helm
	LOCKDRILL_HELM=$(CURDIR)/bin/helm $(GO) test -count=1 -v -run TestHelm ./deploy

# Modules of their own: `go test ./...` does not enter them.
BESIDE := internal/wild internal/bench internal/elector

check: deps ## what must hold before a change is merged: form, vet, staticcheck, structure, tests under the race detector (without the drills through the binary)
	@test -z "$$(gofmt -l .)" || { echo "gofmt:"; gofmt -l .; exit 1; }
	$(GO) build ./...
	$(GO) vet -tags full ./...
	$(GO) tool staticcheck -tags full ./...
	$(GO) mod tidy -diff
	$(GO) test ./internal/archtest
	for module in $(BESIDE); do (cd $$module && $(GO) vet ./... && $(GO) mod tidy -diff) || exit 1; done
	cd internal/wild && $(GO) test .
	$(GO) test -race -short -tags full -timeout 20m ./...

wild: ## locks that people use, in four languages, under thirteen drills, and three queues, twice: docs/wild.md; an hour and a half (ONLY=library, library/drill, /drill or wild/NAME; needs iproute2, node 20 with npm, python3-redis, postgresql, curl, zookeeper, libcurator-recipes-java and a JDK)
	cd internal/wild && $(GO) run . -only "$(ONLY)"

record: ## what docs/wild.md shows, each once on this tree, and where it is otherwise than recorded: run before and after a change of the harness; bin/wild/record.json, with commit and date; 50 minutes (ONLY= and needs as wild)
	cd internal/wild && $(GO) run . -only "$(ONLY)" -times 1 -data ../../bin/wild/record.json -against wild.json

bench: deps ## the lock core beside its peers, 100,000 locks, one key that many wait for, rehearsals, a long history beside Python's json, drills of many jobs: docs/performance.md; ten minutes
	cd internal/bench && $(GO) run .
	$(GO) test -run '^$$' -bench 'Drill|Rehearsal|Many' -cpu 1,2 ./lockcore/sim ./drill/rehearsal
	$(GO) test -run '^$$' -bench . -benchmem ./history
	$(GO) test -run '^$$' -bench Keyspace -benchtime 1x ./stores/redis
	$(GO) test -tags full -run '^$$' -bench TenThousand -benchtime 3x ./serve
	$(GO) test -run '^$$' -bench JudgeBesidePython -benchtime 3x ./cmd/lockdrill
	$(GO) test -run '^$$' -bench DrillOfManyJobs -benchtime 1x ./cmd/lockdrill/e2e

pictures: ## docs/report-light.png and docs/report-dark.png, from a recorded run in headless Chromium: look at them before you commit them
	@.ci/need chromium chromium fonts-dejavu-core
	LOCKDRILL_PICTURES=1 $(GO) test -count=1 -run TestPicturesOfTheDocuments ./reports

deps: ## what tests run for real: redis-server and chromium, promtool, which evaluates the exported rules, prometheus of the same package, an Alertmanager, python3, for the worker that others copy, node, for a service that is drilled, systemd, whose units are drilled (it is not booted), the databases that effects are read from, etcd, and the shell of the image, with curl, for the exported CI steps
	@.ci/need redis-server
	@.ci/need chromium chromium fonts-dejavu-core
	@.ci/need promtool prometheus
	@.ci/need prometheus-alertmanager
	@.ci/need python3
	@.ci/need node nodejs
	@.ci/need /usr/lib/systemd/systemd systemd
	@.ci/need pg_ctlcluster postgresql
	@.ci/need mariadbd mariadb-server
	@.ci/need etcd etcd-server
	@.ci/need curl
	@.ci/need busybox busybox-static

clean: ## what the targets above have made
	rm -rf bin
