package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/kubefake"
)

// What a run leaves in a ConfigMap: the verdict in keys of their own, and the closing summary for people.
func TestSummaryOfARun(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	var stderr bytes.Buffer
	cluster := kube.New(kubefake.Generic(client), "staging")
	g := &gate{
		stderr: &stderr,
		leave:  func(data map[string]string) error { return cluster.WriteSummary(t.Context(), "last", data) },
		mark:   func(data map[string]string) error { return cluster.MarkSummary(t.Context(), "last", data) },
	}
	last := func() map[string]string {
		t.Helper()
		o, err := client.CoreV1().ConfigMaps("staging").Get(t.Context(), "last", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return o.Data
	}
	r, err := readRun(io.Discard, storedRun(t, t.TempDir(), "20260102T030405.000Z-first-drill"), judgesAnew)
	if err != nil {
		t.Fatal(err)
	}
	g.leaveVerdict(r)
	data, j := last(), r.Judgement
	if data["verdict"] != j.Verdict || data["exitCode"] != "11" || data["run"] != j.Run.ID || data["ended"] != j.Run.Ended || !strings.Contains(data["summary"], j.SLOs[0].Lock) {
		t.Errorf("%q", data)
	}

	for code, told := range map[int]bool{verdict.ExitUsage: false, verdict.ExitRefused: false, verdict.ExitAborted: true, verdict.ExitError: true} {
		before := last()["summary"]
		g.leaveUnjudged("drill", code, "because of redis://me:secret@host "+verdict.ExitName(code)+strings.Repeat("é", maxClosing), time.Unix(0, 0))
		data := last()
		if (data["summary"] != before) != told || told && (data["verdict"] != verdict.ExitName(code) || data["run"] != "") {
			t.Errorf("after %s: %.200q", verdict.ExitName(code), data)
		}
		if code == verdict.ExitRefused && data["refused"] == "" {
			t.Errorf("a refused run left no mark: %.200q", data)
		}
		if strings.Contains(data["summary"], "secret") || len(data["summary"]) > maxClosing+10 {
			t.Errorf("%.200q, %d bytes", data["summary"], len(data["summary"]))
		}
	}
	if stderr.Len() > 0 {
		t.Errorf("%s", &stderr)
	}
	client.PrependReactor("*", "configmaps", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("forbidden") })
	g.leaveVerdict(r)
	if !strings.Contains(stderr.String(), "lockdrill: --summary-configmap: ") || !strings.Contains(stderr.String(), "the verdict stands") {
		t.Errorf("a summary that cannot be written: %s", &stderr)
	}
}
