module github.com/holdfast-mcp/holdfast/worker

go 1.26.0
