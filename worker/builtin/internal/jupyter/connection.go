package jupyter

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
)

// The sockets of a kernel, in the order of their ports.
const (
	shell = iota
	iopub
	stdin
	control
	heartbeat
	sockets
)

// connection is where a kernel listens, and the folder with the file that tells
// it so.
type connection struct {
	dir       string
	file      string
	transport string
	ip        string
	ports     [sockets]int
}

// connectionFile is the content of that file.
type connectionFile struct {
	Shell     int    `json:"shell_port"`
	IOPub     int    `json:"iopub_port"`
	Stdin     int    `json:"stdin_port"`
	Control   int    `json:"control_port"`
	Heartbeat int    `json:"hb_port"`
	IP        string `json:"ip"`
	Key       string `json:"key"`
	Transport string `json:"transport"`
	Scheme    string `json:"signature_scheme"`
	Kernel    string `json:"kernel_name"`
}

// maxSocketPath is the longest path of a socket, less than the 108 bytes of
// Linux and the 104 of macOS and BSD.
const maxSocketPath = 100

// newConnection makes the folder of a kernel, which is this user's alone. With
// ipc its sockets are in there as well: unlike ports they are guarded by the
// rights of the folder, and nobody can take them before the kernel does.
func newConnection(parents []string, ipc bool, free func() ([sockets]int, error)) (*connection, error) {
	parent, short := place(parents)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parent, "holdfast-")
	if err != nil {
		return nil, err
	}
	// On some systems a part of the path is a link, and kernels want the file
	// that is meant.
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	c := &connection{dir: dir, file: filepath.Join(dir, "kernel.json"), transport: "tcp", ip: "127.0.0.1"}
	if ipc && short && len(c.socket(shell)) <= maxSocketPath {
		c.transport, c.ip = "ipc", filepath.Join(dir, "s")
		for i := range c.ports {
			c.ports[i] = i + 1
		}
		return c, nil
	}
	if c.ports, err = free(); err != nil {
		c.remove()
		return nil, err
	}
	return c, nil
}

// place picks the first folder whose path is short enough for sockets, else the
// first.
func place(parents []string) (dir string, short bool) {
	if runtime.GOOS != "windows" {
		for _, parent := range parents {
			if len(filepath.Join(parent, "holdfast-1234567890", "s-5")) <= maxSocketPath {
				return parent, true
			}
		}
	}
	return parents[0], false
}

func (c *connection) socket(i int) string {
	return filepath.Join(c.dir, "s") + "-" + strconv.Itoa(i+1)
}

// write writes the connection file, which holds the key, for this user alone.
func (c *connection) write(key []byte, kernel string) error {
	raw, err := json.MarshalIndent(connectionFile{
		Shell: c.ports[shell], IOPub: c.ports[iopub], Stdin: c.ports[stdin], Control: c.ports[control],
		Heartbeat: c.ports[heartbeat], IP: c.ip, Key: string(key), Transport: c.transport,
		Scheme: "hmac-sha256", Kernel: kernel,
	}, "", "  ")
	if err != nil {
		return err
	}
	file, err := os.OpenFile(c.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := file.Write(raw); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

// endpoint returns where one of the sockets is.
func (c *connection) endpoint(socket int) string {
	if c.transport == "ipc" {
		return "ipc://" + c.ip + "-" + strconv.Itoa(c.ports[socket])
	}
	return "tcp://" + net.JoinHostPort(c.ip, strconv.Itoa(c.ports[socket]))
}

func (c *connection) remove() { os.RemoveAll(c.dir) }

// The ports that kernels get. They are below those that systems give to
// outgoing connections, of which one could come between.
const (
	lowestPort  = 10_000
	highestPort = 29_999
)

// freePorts returns ports of the loopback that nobody listens on. Someone else
// may take one before the kernel does, which is then started again.
func freePorts() (ports [sockets]int, err error) {
	for i := range ports {
		l, err := listenAnywhere()
		if err != nil {
			return ports, fmt.Errorf("find a port: %w", err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

func listenAnywhere() (l net.Listener, err error) {
	for range 100 {
		port := lowestPort + rand.IntN(highestPort-lowestPort+1)
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return l, nil
		}
	}
	return nil, err
}
