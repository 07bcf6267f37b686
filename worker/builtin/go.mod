module github.com/holdfast-mcp/holdfast/worker/builtin

go 1.26.0
