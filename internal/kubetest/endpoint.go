package kubetest

import (
	"io"
	"log"
	"net/http"
	"strconv"
	"time"
)

// handler answers what an API server asks a kubelet.
func (n *node) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", n.serveLogs)
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", n.serveExec)
	return mux
}

// life finds the one that a request is about; nil = it has been answered.
func (n *node) life(w http.ResponseWriter, r *http.Request, previous bool) *Life {
	s := n.runner(r.PathValue("namespace"), r.PathValue("pod"))
	if s == nil {
		http.Error(w, "pod not found", http.StatusNotFound)
		return nil
	}
	life, last := s.lives()
	if previous {
		life = last
	}
	if life == nil {
		http.Error(w, "container \""+r.PathValue("container")+"\" in pod \""+r.PathValue("pod")+"\" is waiting to start: ContainerCreating", http.StatusBadRequest)
	}
	return life
}

// serveLogs streams the log of one life. A stream that follows ends with that life, and goes on where the object is gone before.
func (n *node) serveLogs(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	l := n.life(w, r, q.Get("previous") == "true")
	if l == nil {
		return
	}
	s := shown{follow: q.Get("follow") == "true", stamps: q.Get("timestamps") == "true", tail: -1}
	if tail, err := strconv.Atoi(q.Get("tailLines")); err == nil {
		s.tail = tail
	}
	if seconds, err := strconv.Atoi(q.Get("sinceSeconds")); err == nil {
		s.since = time.Now().Add(-time.Duration(seconds) * time.Second)
	}
	if since, err := time.Parse(time.RFC3339, q.Get("sinceTime")); err == nil {
		s.since = since
	}
	n.mu.Lock()
	cut := n.cut
	n.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain")
	flush := http.NewResponseController(w).Flush
	if l.log.copy(r.Context(), w, s, cut, func() { _ = flush() }) {
		panic(http.ErrAbortHandler) // cuts the connection to the API server
	}
}

// CutLogs cuts the connections by which the API server reads logs from the node. The lives go on.
func (e *Env) CutLogs() {
	e.node.mu.Lock()
	defer e.node.mu.Unlock()
	close(e.node.cut)
	e.node.cut = make(chan struct{})
}

func silent() *log.Logger { return log.New(io.Discard, "", 0) }
