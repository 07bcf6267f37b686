package bridge

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary, started with this variable, is the bridged server.
const childVariable = "BRIDGE_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childVariable) {
	case "":
		goleak.VerifyTestMain(m)
	case "server":
		serveChild()
	case "grandchild":
		time.Sleep(time.Minute) // holds stdout until it is killed
	}
}

// serveChild is a server that does as the method of a request says.
func serveChild() {
	var seen []string
	var held []json.RawMessage
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		text, err := in.ReadString('\n')
		if err != nil {
			os.Exit(0)
		}
		text = strings.TrimSuffix(text, "\n")
		seen = append(seen, text)
		var msg struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Bytes string // base64; ID stands for the id of the request
				Code  int
				Size  int
				Of    int
			}
		}
		if err := json.Unmarshal([]byte(text), &msg); err != nil {
			fmt.Fprintf(os.Stderr, "bad line %q: %v\n", text, err)
			os.Exit(9)
		}
		answer := func(id json.RawMessage, result string) {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result)
		}
		switch msg.Method {
		case "emit":
			raw, _ := base64.StdEncoding.DecodeString(msg.Params.Bytes)
			os.Stdout.WriteString(strings.ReplaceAll(string(raw), "$ID", string(msg.ID)))
		case "emit_and_exit":
			raw, _ := base64.StdEncoding.DecodeString(msg.Params.Bytes)
			os.Stdout.WriteString(strings.ReplaceAll(string(raw), "$ID", string(msg.ID)))
			os.Exit(msg.Params.Code)
		case "exit":
			os.Exit(msg.Params.Code)
		case "kill":
			p, _ := os.FindProcess(os.Getpid())
			p.Kill()
			select {}
		case "large":
			answer(msg.ID, `"`+strings.Repeat("x", msg.Params.Size)+`"`)
		case "large_id_last":
			fmt.Printf(`{"result":{"id":1,"text":"%s"},"jsonrpc":"2.0","id":%s}`+"\n", strings.Repeat("x", msg.Params.Size), msg.ID)
		case "hold": // answered in reverse order once there are params.of
			if held = append(held, msg.ID); len(held) == msg.Params.Of {
				slices.Reverse(held)
				for _, id := range held {
					answer(id, string(id))
				}
			}
		case "hang":
		case "deaf": // never reads again, and does not mind TERM
			signal.Ignore(syscall.SIGTERM)
			answer(msg.ID, "{}")
			time.Sleep(time.Hour)
		case "leave_grandchild":
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childVariable+"=grandchild")
			cmd.Stdout = os.Stdout
			if err := cmd.Start(); err != nil {
				os.Exit(8)
			}
			answer(msg.ID, fmt.Sprint(cmd.Process.Pid))
			os.Exit(msg.Params.Code)
		case "env":
			b, _ := json.Marshal(os.Environ())
			answer(msg.ID, string(b))
		case "seen":
			b, _ := json.Marshal(seen)
			answer(msg.ID, string(b))
		case "flood_stderr":
			for range 256 {
				fmt.Fprintln(os.Stderr, strings.Repeat("e", 1023))
			}
			answer(msg.ID, "{}")
		default:
			if len(msg.ID) > 0 && msg.Method != "" {
				answer(msg.ID, "{}")
			}
		}
	}
}
