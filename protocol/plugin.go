package protocol

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/holdfast-mcp/holdfast/protocol/workerv1"
)

// PluginName is the one name that a supervisor dispenses.
const PluginName = "worker"

// Features that either side may declare in Describe. What is not declared is
// refused by name and never assumed (SUP-17).
const (
	// FeatureMultiSession: sessions are cheap, independent and share one
	// server. Declared by workers that serve one server to all sessions.
	FeatureMultiSession = "multi_session"
	// FeatureDrain: the worker answers DRAIN with DRAINED.
	FeatureDrain = "drain"
	// FeatureExit: the worker ends its sessions with an EXIT frame when the
	// server behind them has ended.
	FeatureExit = "exit"
)

// DefaultMaxFrame is the default limit of one JSON-RPC message, in bytes
// (EDGE-4).
const DefaultMaxFrame = 64 << 20

// FrameOverhead is what gRPC message limits allow beyond the frame limit, so
// that a frame within the limit always fits into its message.
const FrameOverhead = 1 << 20

// Plugin adapts the worker service to go-plugin. A worker sets Service; a
// supervisor leaves it nil and dispenses a [workerv1.WorkerServiceClient].
type Plugin struct {
	plugin.NetRPCUnsupportedPlugin

	Service workerv1.WorkerServiceServer
}

var _ plugin.GRPCPlugin = (*Plugin)(nil)

// GRPCServer registers the worker's service. It is called by go-plugin.
func (p *Plugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	if p.Service == nil {
		return fmt.Errorf("protocol: plugin %q has no service", PluginName)
	}
	workerv1.RegisterWorkerServiceServer(s, p.Service)
	return nil
}

// GRPCClient returns the [workerv1.WorkerServiceClient] of a connection. It is
// called by go-plugin.
func (p *Plugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, cc *grpc.ClientConn) (any, error) {
	return workerv1.NewWorkerServiceClient(cc), nil
}

// Versions returns the plugins by wire version, for both sides of go-plugin's
// VersionedPlugins. service is nil on the supervisor's side.
func Versions(service workerv1.WorkerServiceServer) map[int]plugin.PluginSet {
	versions := make(map[int]plugin.PluginSet, WireVersion-WireVersionMin+1)
	for v := WireVersionMin; v <= WireVersion; v++ {
		versions[v] = plugin.PluginSet{PluginName: &Plugin{Service: service}}
	}
	return versions
}

// Flow control windows of the wire. They are fixed because gRPC otherwise sends
// a ping beside nearly every message to estimate a bandwidth that a socket on
// one machine does not have; see docs/adr/0004-fixed-windows.md.
const (
	streamWindow = 4 << 20
	connWindow   = 8 << 20
)

// ServerOptions returns the gRPC options that a worker needs for frames of up
// to maxFrame bytes.
func ServerOptions(maxFrame int) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxFrame + FrameOverhead),
		grpc.MaxSendMsgSize(maxFrame + FrameOverhead),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
	}
}

// DialOptions returns the gRPC options that a supervisor needs for frames of
// up to maxFrame bytes.
func DialOptions(maxFrame int) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(maxFrame+FrameOverhead),
			grpc.MaxCallSendMsgSize(maxFrame+FrameOverhead)),
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connWindow),
	}
}
