//go:build unix

package integration

import (
	"os/exec"
	"syscall"
)

// asNobody has a command run as a user without rights; only root may do so.
func asNobody(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return cmd
}
