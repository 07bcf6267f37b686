package control

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/proxy"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/rebuild"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/supervise"
)

// Status is what a supervisor tells of itself (SUP-15).
type Status struct {
	Pid     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// Outdated: the file of the running supervisor has been replaced (SUP-19).
	Outdated bool   `json:"outdated,omitempty"`
	Command  string `json:"command"`
	Dir      string `json:"dir"`
	// Settings has the value and the origin of each setting.
	Settings map[string]Setting `json:"settings,omitempty"`
	Worker   supervise.Status   `json:"worker"`
	Client   proxy.Status       `json:"client"`
	// Build is what is built, nil in a supervisor that builds nothing.
	Build *rebuild.Status `json:"build,omitempty"`
}

// Setting is a value and where it comes from: default, flag, environment or
// file.
type Setting struct {
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// SwapResult is the outcome of a swap.
type SwapResult struct {
	// Generation that serves now, 0 if none does.
	Generation uint64 `json:"generation"`
	// Error is why it is not a new one, or empty.
	Error string `json:"error,omitempty"`
}

// Target is the supervisor that a Server speaks for.
type Target interface {
	Status() Status
	Swap(ctx context.Context) (supervise.Outcome, error)
}

// Serve serves the target on a socket at path until ctx ends.
func Serve(ctx context.Context, path string, target Target) error {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, listener.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { reply(w, target.Status()) })
	mux.HandleFunc("POST /swap", func(w http.ResponseWriter, r *http.Request) { swap(w, r, target) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(sameUser{listener}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func swap(w http.ResponseWriter, r *http.Request, target Target) {
	outcome, err := target.Swap(r.Context())
	result := SwapResult{Generation: outcome.Generation}
	switch told, ok := errors.AsType[*protocol.Error](outcome.Err); {
	case err != nil:
		result.Error = err.Error()
	case ok:
		result.Error = told.Message // its kind is for clients
	case outcome.Err != nil:
		result.Error = outcome.Err.Error()
	}
	reply(w, result)
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(v) // a client that is gone needs no answer
}

// sameUser refuses connections of other users where the system tells.
type sameUser struct{ net.Listener }

func (l sameUser) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || peerIsUs(conn) {
			return conn, err
		}
		conn.Close()
	}
}
