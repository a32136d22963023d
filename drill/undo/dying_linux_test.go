package undo

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Whatever is killed together with its leader is on its way out for a moment, with nothing left to be known by: that is never taken for
// a stranger in the group. The moment is short, so many are looked at.
func TestWhatDiesWithItsLeaderIsNoStranger(t *testing.T) {
	for range 40 {
		cmd := exec.Command("sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 60 & done; echo started; wait")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Env = append(os.Environ(), MarkEnv+"=dying")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		p := Find(cmd.Process.Pid)
		p.Mark = "dying"
		_ = syscall.Kill(-p.PID, syscall.SIGKILL)
		_ = cmd.Wait() // it was killed
		for {
			left, err := p.members()
			if err != nil {
				t.Fatal(err)
			}
			if len(left) == 0 {
				break
			}
		}
	}
}
