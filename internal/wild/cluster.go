package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
)

// onCluster starts an API server for a run of a lock that is a Lease object, and points the run and its workers at it; end ends it.
func onCluster(run *exec.Cmd) (end func(), err error) {
	cluster := exec.Command(out+"/cluster", "-test.run", "TestServe", "-test.timeout", "10m")
	cluster.Env, cluster.Stderr = append(os.Environ(), "LOCKDRILL_KUBE=1"), os.Stderr
	hold, err := cluster.StdinPipe()
	if err != nil {
		return nil, err
	}
	said, err := cluster.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cluster.Start(); err != nil {
		return nil, err
	}
	end = func() {
		_ = hold.Close()
		_ = cluster.Wait()
	}
	line, err := bufio.NewReader(said).ReadBytes('\n')
	var at struct{ Kubeconfig, Control string }
	if err == nil {
		err = json.Unmarshal(line, &at)
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("start an API server: %w: %s", err, line)
	}
	run.Args = append(run.Args, "--kubeconfig", at.Kubeconfig)
	run.Env = append(os.Environ(), "WILD_CLUSTER="+at.Control)
	return end, nil
}
