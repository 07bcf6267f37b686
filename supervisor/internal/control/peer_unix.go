//go:build linux || darwin

package control

import (
	"net"
	"os"
)

// peerIsUs reports whether the process at the other end runs as our user, or
// as root.
func peerIsUs(conn net.Conn) bool {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	same := false
	err = raw.Control(func(fd uintptr) {
		uid, err := peerUID(int(fd))
		same = err == nil && (int(uid) == os.Getuid() || uid == 0)
	})
	return err == nil && same
}
