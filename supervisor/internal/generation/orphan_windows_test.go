package generation

import "os/exec"

// ownSession has nothing to do: a job holds all that is below a worker.
func ownSession(*exec.Cmd) {}
