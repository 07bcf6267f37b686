package control

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/holdfast-mcp/holdfast/internal/logging"
	"github.com/holdfast-mcp/holdfast/protocol"
	"github.com/holdfast-mcp/holdfast/supervisor/internal/supervise"
)

const (
	// headerTimeout and headerBytes bound what somebody can send who has
	// nothing to say.
	headerTimeout = 5 * time.Second
	headerBytes   = 4 << 10
	// endTimeout bounds how long answers under way may take at the end.
	endTimeout = 100 * time.Millisecond
)

// Target is the supervisor that is served.
type Target interface {
	Status() Status
	Swap(ctx context.Context) (supervise.Outcome, error)
	// Stop has the session end; it does not wait for that.
	Stop()
	Log() *logging.Recent
}

// Serve serves the target on a socket at path until ctx ends. Who follows the
// log then gets the rest of it.
func Serve(ctx context.Context, path string, target Target) error {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{
		Handler: withoutParameters(routes(ctx, target)), ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: headerBytes,
		// What strangers send is nothing that the log should tell.
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	ended := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(ended)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		_ = server.Shutdown(grace) // what is left then is cut off
		server.Close()
	})
	if err := server.Serve(sameUser{listener}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-ended
	return nil
}

func routes(ctx context.Context, target Target) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { reply(w, target.Status()) })
	mux.HandleFunc("GET /logs", func(w http.ResponseWriter, _ *http.Request) { kept(w, target.Log()) })
	mux.HandleFunc("GET /logs/follow", func(w http.ResponseWriter, r *http.Request) { follow(ctx, w, r, target.Log()) })
	mux.HandleFunc("POST /swap", func(w http.ResponseWriter, r *http.Request) { swap(w, r, target) })
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, r *http.Request) { stop(ctx, w, r, target) })
	return mux
}

// withoutParameters refuses requests that bring anything but a method and a
// path.
func withoutParameters(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 || r.URL.RawQuery != "" || r.URL.ForceQuery {
			http.Error(w, "a request has neither a query nor a body", http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
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

// stop answers at once, and leaves the answer open until the session has ended.
func stop(ctx context.Context, w http.ResponseWriter, r *http.Request, target Target) {
	reply(w, struct{}{})
	_ = http.NewResponseController(w).Flush() // a client that is gone does not wait
	target.Stop()
	select {
	case <-ctx.Done():
	case <-r.Context().Done():
	}
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that is gone needs no answer
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
