package kubetest

import "net/http"

func (n *node) serveExec(w http.ResponseWriter, r *http.Request) {
	http.Error(w, "not yet", http.StatusNotImplemented)
}
