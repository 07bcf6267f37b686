// Package jupyter runs Jupyter kernels: it finds them by Jupyter's rules,
// starts them, and speaks their messages.
//
//	spec, err := jupyter.Find(environ, "python3")
//	k, err := jupyter.Start(ctx, jupyter.Config{Spec: spec, Dir: dir})
//	defer k.Close(2 * time.Second)
//	run, err := k.Execute(ctx, jupyter.Request{Code: "1+1"})
//	for {
//		m, err := run.Next(ctx) // io.EOF after the last
//	}
//	result := run.Result()
//
// # A kernel is used once
//
//	Start:  connection file, process --> sockets --> kernel_info, heartbeat --> ready
//	             |                          |               |
//	             +--------- ended, or not ready in time ----+--> *StartError
//	ready --> Done: the process is reaped, its files are removed; Err tells why
//
// It ends when its process does, be it by itself or by [Kernel.Kill] and
// [Kernel.Close], when it has closed its sockets, and when it has been silent
// for three heartbeats of 5 s (ROOM-7). [Kernel.Restart] makes another one.
//
// # Outcomes
//
// An execution ends with the reply of the kernel and its idle status. If the
// kernel ends before, all that it had said is received first, then the result
// is [Died]. No output is lost at a reader that stalls (ROOM-8): what a kernel
// says is taken from its sockets at once and kept by package zmtp. A kernel on a
// starved machine may drop output before it is sent; of ipykernel, whose
// messages can be counted, that is told by [Result.Cut].
//
// Messages are signed with HMAC-SHA256. Those with a wrong signature are
// dropped and counted.
//
// # Concurrency
//
// The methods of a Kernel may be called from any goroutine. [Execution.Next] is
// for one goroutine at a time. The messages of all executions come through one
// reader in the order of the kernel: an execution that is not read holds up
// those behind it, until it is read or left by [Execution.Leave].
//
// # Limits
//
// The package knows no notebook and puts no outputs together; package outputs
// does. Comms are not spoken. Kernels on other machines and provisioners other
// than the local one are refused. What a kernel's threads say after an
// execution has ended is dropped.
package jupyter
