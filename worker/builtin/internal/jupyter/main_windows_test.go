package jupyter

import (
	"os"
	"testing"
)

func groupLives(int) bool { return false }

func stop(t *testing.T, _ *Kernel) {
	t.Helper()
	t.Skip("no SIGSTOP on Windows")
}

func killHard(t *testing.T, k *Kernel) {
	t.Helper()
	p, err := os.FindProcess(k.Identity().Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
}
